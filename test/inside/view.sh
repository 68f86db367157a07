# Prints the confinement of this shell, one fact a line.
cat /proc/self/status | grep -E '^(Umask|Uid|Gid|Groups|Sig[PBIC]|Shd|Cap|NoNew|Seccomp|Cpus|Mems|Speculation|THP)'
sed 's/^/limit /' /proc/self/limits
for f in oom_score_adj cgroup attr/current uid_map gid_map timerslack_ns personality setgroups coredump_filter \
	loginuid; do
	sed "s#^#$f #" /proc/self/$f 2>&1
done
for ns in /proc/self/ns/*; do echo "$ns $(readlink $ns)"; done
cut -d' ' -f18,19,40,41 /proc/self/stat
ionice
env | sed 's/^/env /'
pwd
readlink /proc/$$/cwd
readlink /proc/$$/root
ls /proc/$$/fd
stat -L -c '%n is a %F' /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2
grep -E ' (/|/proc|/sys|/dev) ' /proc/self/mounts | cut -c1-40
stat -c '%u %g %a %t %T' /dev/null /proc/self/fd/0 2>&1
touch /written-by-a-command && echo the root is writable
(tty; stty -a) 2>&1
true
