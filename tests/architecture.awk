# Prints every violation of the rules in test_architecture.sh and exits 1 if there is one.

BEGIN {
    below_fedavg = " base nn io shm datasets "
    may["base"] = " base "
    may["nn"] = " base nn "
    may["io"] = " base io "
    may["shm"] = " base shm "
    may["shm/group"] = " base shm shm/group "
    may["datasets"] = " base datasets "
    rule = below_fedavg "fedavg/rules fedavg/rules/sum "
    may["fedavg/rules"] = below_fedavg "fedavg/rules "
    may["fedavg/rules/sum"] = rule
    may["fedavg/rules/local"] = rule "fedavg/rules/local "
    may["fedavg/rules/server"] = rule "fedavg/rules/server "
    may["fedavg/rules/world"] = rule "fedavg/rules/world "
    may["fedavg/rules/send"] = may["fedavg/rules/local"] "fedavg/rules/send "
    may["fedavg/rules/combine"] = may["fedavg/rules/world"] "fedavg/rules/combine "
    may["fedavg/rules/attack"] = may["fedavg/rules/combine"] "fedavg/rules/attack "
    may["fedavg/rules/privacy"] = may["fedavg/rules/combine"] may["fedavg/rules/send"] "fedavg/rules/privacy "
    rules = may["fedavg/rules/privacy"] "fedavg/rules/server fedavg/rules/attack "
    may["fedavg/nodes"] = below_fedavg "fedavg/nodes "
    may["fedavg/algorithm"] = rules "fedavg/algorithm "
    may["fedavg/memory"] = rules "fedavg/algorithm fedavg/nodes fedavg/memory "
    may["fedavg/trainer"] = may["fedavg/memory"] "fedavg/trainer "
    may["fedavg/worker"] = may["fedavg/trainer"] "fedavg/worker "
    may["fedavg/parent"] = may["fedavg/worker"] "fedavg/parent "
    may["fedavg/gpu"] = may["fedavg/parent"] "fedavg/gpu "
    may["fedavg/figures"] = may["fedavg/parent"] "fedavg/figures "
    all = may["fedavg/gpu"] "fedavg/figures shm/group "
    may["app/options"] = all "app/options "
    may["app/launch"] = all "app app/options app/launch "
    may["app/train"] = all "app app/options app/train "
    may["app/look"] = may["app/train"] "app/look "
    may["app/again"] = may["app/look"] "app/again "
    may["app/help"] = may["app/look"] "app/help "
    may["app"] = may["app/again"] "app/launch app/look app/help "
    may["tests"] = may["app"] "tests "
}

function complain(text) {
    print FILENAME ":" FNR ": " text
    violations++
}

# The room of a file: "src/nn/net.h" -> "nn", "fedavg/memory/queue.h" -> "fedavg/memory". A folder that is no room
# belongs to the box around it.
function room_of(path) {
    sub(/^src\//, "", path)
    while (sub(/\/[^\/]*$/, "", path))
        if (path in may) return path
    return path
}

function end_of_file() {
    if (last_file ~ /\.h$/ && !guarded) {
        print last_file ":1: needs the include guard " guard
        violations++
    }
}

# Whether a file is there.
function is_file(path,    line, found) {
    found = (getline line < path) >= 0
    close(path)
    return found
}

# A file without a header of its name says in line 1 whose part it is.
FNR == 1 && FILENAME ~ /\.c$/ && FILENAME !~ /^tests\/|\/main\.c$/ && !/^\/\/ Part of [a-z_]+\.h: / {
    own = FILENAME
    sub(/c$/, "h", own)
    if (!is_file(own)) complain("no header of this name: line 1 says whose part it is, `// Part of rounds.h: ...`")
}

FNR == 1 {
    end_of_file()
    last_file = FILENAME
    room = room_of(FILENAME)
    guarded = 0
    guard = FILENAME
    sub(/^src\//, "", guard)
    gsub(/[^A-Za-z0-9]/, "_", guard)
    guard = "SOUNDER_" toupper(guard)
    wanted = ""
}

/^[ \t]*\/\// && length($0) > 120 { complain("a comment of " length($0) " columns, 120 are allowed") }

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    included = quoted[2]
    target = included ~ /\// ? room_of(included) : room # a name without a folder is a neighbour
    if (included ~ /^\./ || included ~ /^src\// || !(target in may))
        complain("\"" included "\": write headers by their box, such as \"base/err.h\"")
    else if (index(may[room], " " target " ") == 0)
        complain(room " may not include " target ": \"" included "\"")
}

$1 == "#ifndef" && $2 == guard { wanted = guard }
$1 == "#define" && $2 == guard && wanted == guard { guarded = 1 }

# An algorithm is asked for in the files of its engine; elsewhere engine_facts and tables say what to do.
/(==|!=) *ENGINE_|case ENGINE_/ && FILENAME !~ /^tests|\/(engine_|hogwild|ssgd|client)[^\/]*$/ {
    if (++comparisons > 8) complain("the ninth line outside the engines' own files that compares an algorithm")
}

# A process looks up its rules once (fedavg/algorithm/algorithm.h), and a part of a recipe has a field of its name.
FILENAME !~ /^(fedavg\/algorithm|tests)\// {
    if (/recipe(\.|->)parts\[/) complain("a part of a recipe by its index; write recipe.server")
    if (/engine_facts\[/ && ++lookups > 4) complain("the fifth lookup of an engine; ask memory->algorithm.engine")
}

# A layer is a row (src/nn/layers); the planners may only know what a relu joins, and what is fully connected.
/kind *(==|!=) *LAYER_[A-Z]|case LAYER_[A-Z]/ && FILENAME ~ /^src\/nn\// && FILENAME !~ /^src\/nn\/layers\// {
    if (++kinds > 7) complain("the eighth line outside src/nn/layers that compares a kind of layer")
}

# Without a bound the compiler may give a thread so many registers that a large block cannot start.
/__global__/ && !/__launch_bounds__|#define/ { complain("a kernel without __launch_bounds__") }

# clang-format puts the first line of every definition, and only that, at the left margin; a function ends with a bare
# brace there, tables and structs with "};" or a name.
/^[A-Za-z_]/ {
    start = FNR
    name = $0
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
}
/^}[ \t]*$/ {
    length_lines = FNR - start + 1
    if (length_lines > 60) complain(name " has " length_lines " lines; a function has at most 60")
}

END {
    end_of_file()
    exit violations > 0
}
