# Prints every violation of the rules in test_architecture.sh and exits 1 if there is one.

BEGIN {
    may["base"] = " base "
    may["nn"] = " base nn "
    may["io"] = " base io "
    may["shm"] = " base shm "
    may["datasets"] = " base datasets "
    may["fedavg"] = " base nn io shm datasets fedavg "
    may["app"] = " base nn io shm datasets fedavg app "
    may["tests"] = " base nn io shm datasets fedavg app tests "
}

function complain(text) {
    print FILENAME ":" FNR ": " text
    violations++
}

# "src/app/options.h" -> "app", "shm/queue.h" -> "shm"
function box_of(path) {
    sub(/^src\//, "", path)
    sub(/\/.*/, "", path)
    return path
}

function end_of_file() {
    if (last_file ~ /\.h$/ && !guarded) {
        print last_file ":1: needs the include guard " guard
        violations++
    }
}

FNR == 1 {
    end_of_file()
    last_file = FILENAME
    box = box_of(FILENAME)
    guarded = 0
    guard = FILENAME
    sub(/^src\//, "", guard)
    gsub(/[^A-Za-z0-9]/, "_", guard)
    guard = "SOUNDER_" toupper(guard)
    wanted = ""
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    included = quoted[2]
    target = included ~ /\// ? box_of(included) : box # a name without a folder is a neighbour
    if (included ~ /^\./ || included ~ /^src\// || !(target in may))
        complain("\"" included "\": write headers by their box, such as \"base/err.h\"")
    else if (index(may[box], " " target " ") == 0)
        complain(box " may not include " target ": \"" included "\"")
}

$1 == "#ifndef" && $2 == guard { wanted = guard }
$1 == "#define" && $2 == guard && wanted == guard { guarded = 1 }

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
