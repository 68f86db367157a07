package main

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// subjectLength is the largest number of characters in the subject of a commit.
const subjectLength = 72

// checkCommits checks the commits from base to HEAD, and returns how many findings it printed. If it cannot find out
// which commits these are, it prints that and checks none.
func checkCommits(ctx context.Context, out io.Writer, root, base string) (int, error) {
	git := func(args ...string) (string, error) {
		output, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(output)), err
	}
	for _, branch := range []string{"origin/main", "main"} {
		if base == "" {
			base, _ = git("merge-base", "HEAD", branch)
		}
	}
	if base == "" {
		fmt.Fprintln(out, "commits: not checked, this clone has neither origin/main nor main in its history; "+
			"-base names the commit before the change")
		return 0, nil
	}
	log, err := git("log", "--no-merges", "-z", "--format=%h%n%s%n%b", base+"..HEAD")
	if err != nil {
		return 0, fmt.Errorf("git log %s..HEAD: %w", base, err)
	}
	bad, checked := 0, 0
	for commit := range strings.SplitSeq(log, "\x00") {
		if commit == "" {
			continue
		}
		checked++
		id, message, _ := strings.Cut(commit, "\n")
		for _, says := range checkMessage(message) {
			fmt.Fprintf(out, "commit %s: %s\n", id, says)
			bad++
		}
	}
	fmt.Fprintf(out, "commits: %d checked since %.12s\n", checked, base)
	return bad, nil
}

// checkMessage returns what is wrong with the message of a commit.
func checkMessage(message string) (wrong []string) {
	subject, body, _ := strings.Cut(message, "\n")
	if n := len([]rune(subject)); n > subjectLength {
		wrong = append(wrong, fmt.Sprintf("its subject has %d characters, at most %d: %s", n, subjectLength, subject))
	}
	if strings.TrimSpace(body) == "" {
		wrong = append(wrong, "it has no body that says why: "+subject)
	}
	return wrong
}
