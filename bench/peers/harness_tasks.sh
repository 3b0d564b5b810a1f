# Sourced: what lithe and the harness measure alike.
# harness_tasks DIRECTORY TASK.yaml...: copies of the tasks there under names of their own, since the harness has tasks of these names.
# Fills `names`, and `own`, the arguments of `lithe eval`.
harness_tasks() {
  local directory="$1" task
  shift
  mkdir "$directory"
  names=() own=()
  for task in "$@"; do
    sed 's/^task: /task: lithe_/' "$task" > "$directory/$(basename "$task")"
    own+=(--tasks "$directory/$(basename "$task")")
    names+=("$(sed -n 's/^task: /lithe_/p' "$task")")
  done
}
