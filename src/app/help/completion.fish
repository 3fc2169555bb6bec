# fish completion for sounder
set -g __sounder_words '@words@'
set -g __sounder_commands '@commands@'
set -g __sounder_topics '@topics@'
function __sounder_complete
    set -l before (commandline -opc)
    set -l word (commandline -ct)
    set -l command $before[2]
    if not set -q before[2]
        string split ' ' -- $__sounder_commands
        return
    end
    if test $command = help
        if test $before[-1] = completion
            printf '%s\n' bash zsh fish
        else
            string split ' ' -- $__sounder_topics
        end
        return
    end
    set -l option $before[-1]
    set -l stem ''
    if string match -q -- '--*=*' $word
        set option (string split -m 1 = -- $word)[1]
        set stem $option=
    end
    set -l names --help
    for line in (string split \n -- $__sounder_words)
        set -l parts (string split ' ' -- $line)
        contains -- $command (string split , -- $parts[1]); or continue
        set -a names $parts[2]
        if test $parts[2] = $option; and set -q parts[3]
            printf '%s\n' $stem$parts[3..-1]
        end
    end
    if string match -q -- '-*' $word; and test -z $stem
        printf '%s\n' $names
    end
end
complete -c sounder -n 'test (count (commandline -opc)) -lt 2; or contains -- help (commandline -opc)' -f
complete -c sounder -a '(__sounder_complete)'
