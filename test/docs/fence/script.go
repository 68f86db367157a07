package fence

import (
	"fmt"
	"path"
	"strings"
)

// Serves, in the comment of a line, says that the command runs until it is interrupted.
const Serves = "until Ctrl-C"

// preamble is the beginning of every script. Job control gives each serving line a process group of its own, as a
// terminal does. Without it, bash would make the command ignore the interrupt.
const preamble = `set -euo pipefail -m
serving=()
eventually() {
	local end=$((SECONDS + 600))
	until eval "$1"; do
		if ((SECONDS > end)); then echo "for ten minutes this failed: $1" >&2; return 1; fi
		sleep 0.5
	done
}
interrupt() {
	local code
	for process in "${serving[@]}"; do
		kill -INT -- "-$process" 2>/dev/null || true # it may have ended by itself
		code=0
		wait "$process" || code=$?
		if ((code != 0 && code != 130)); then echo "a line that serves ended with exit code $code" >&2; return 1; fi
	done
}
`

// Script returns a bash script of a suite's commands in a document, and the number of their blocks. The script is empty
// without such blocks. It writes files first. A line with Serves in its comment runs in the background. Each line after
// it is repeated until it succeeds, for ten minutes at most, as a user does at a second terminal. At the end the
// background command is interrupted. It must end with exit code 0, or with 130 as an interrupted shell does.
func Script(blocks []Block, suite Kind) (script string, ran int) {
	var lines strings.Builder
	serving := false
	for _, block := range blocks {
		if block.Kind != suite {
			continue
		}
		ran++
		for _, line := range Lines(block.Text) {
			quoted := quote(line.Command)
			fmt.Fprintf(&lines, "printf '+ %%s\\n' %s >&2\n", quoted)
			switch {
			case strings.Contains(line.Comment, Serves):
				fmt.Fprintf(&lines, "eval %s &\nserving+=($!)\n", quoted)
				serving = true
			case serving:
				fmt.Fprintf(&lines, "eventually %s\n", quoted)
			default:
				lines.WriteString(line.Command + "\n")
			}
		}
	}
	if ran == 0 {
		return "", 0
	}
	return preamble + files(blocks) + lines.String() + "interrupt\n", ran
}

// files returns the lines that write a document's files.
func files(blocks []Block) string {
	var lines strings.Builder
	for _, block := range blocks {
		if block.Kind == YAMLFile || block.Kind == JSONFile {
			fmt.Fprintf(&lines, "mkdir -p %s\nprintf %%s %s > %s\n", quote(path.Dir(block.Note)), quote(block.Text),
				quote(block.Note))
		}
	}
	return lines.String()
}

func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// Line is one command line, with its comment.
type Line struct{ Command, Comment string }

// Lines returns the lines of a block that have a command. A line that ends with a backslash goes on in the next.
func Lines(text string) []Line {
	var lines []Line
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		command, comment, _ := strings.Cut(" "+strings.TrimSpace(line), " #")
		if command = strings.TrimSpace(command); command != "" {
			lines = append(lines, Line{command, strings.TrimSpace(comment)})
		}
	}
	return lines
}
