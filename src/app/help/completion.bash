# bash completion for sounder
_sounder_words='@words@'
_sounder_commands='@commands@'
_sounder_topics='@topics@'
_sounder() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    if [ "$word" = '=' ]; then word=; else [ "$previous" != '=' ] || previous=${COMP_WORDS[COMP_CWORD-2]}; fi
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$_sounder_commands" -- "$word")
        return
    fi
    if [ "$command" = help ]; then
        [ "$previous" = completion ] && mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- "$word") && return
        mapfile -t COMPREPLY < <(compgen -W "$_sounder_topics" -- "$word")
        return
    fi
    local commands name values names=--help
    while read -r commands name values; do
        case ,$commands, in *,"$command",*) names+=" $name" ;; *) continue ;; esac
        if [ "$name" = "$previous" ] && [ -n "$values" ]; then
            mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
        fi
    done <<<"$_sounder_words"
    case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word") ;;
        *) [ ${#COMPREPLY[@]} -gt 0 ] || mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}
complete -o filenames -F _sounder sounder
