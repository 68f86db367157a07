// Command vuln runs the pinned govulncheck over the module. It fails if the code reaches a vulnerability. If the
// vulnerability database on the network does not answer, or the check takes too long, it skips the check and prints one
// line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/criadapter/criadapter/test/program"
)

const (
	// answerTime bounds the time until the database answers.
	answerTime = 10 * time.Second
	// checkTime bounds the check. The analysis takes a minute, and the database may stop answering meanwhile.
	checkTime = 10 * time.Minute
	// found is govulncheck's exit code for a vulnerability.
	found = 3
)

func main() {
	c := checker{out: os.Stdout, answerTime: answerTime, checkTime: checkTime, command: govulncheck}
	flag.StringVar(&c.database, "db", "https://vuln.go.dev", "the `address` of the vulnerability database")
	flag.Parse()
	program.Main("vuln", c.check)
}

// checker runs the check, and skips it without a database.
type checker struct {
	database              string
	out                   io.Writer
	answerTime, checkTime time.Duration
	// command makes the command that does the check. Tests replace it.
	command func(ctx context.Context, database string) *exec.Cmd
}

func govulncheck(ctx context.Context, database string) *exec.Cmd {
	return exec.CommandContext(ctx, "go", "tool", "-modfile=test/tools/go.mod", "govulncheck", "-db", database, "./...")
}

// check fails for a vulnerability, and if govulncheck fails although the database answers.
func (c checker) check(ctx context.Context) error {
	if err := c.reach(ctx); err != nil {
		return errors.Join(ctx.Err(), c.skip(err))
	}
	bounded, cancel := context.WithTimeout(ctx, c.checkTime)
	defer cancel()
	cmd := c.command(bounded, c.database)
	cmd.WaitDelay = time.Second // a child of the tool may keep the pipe open
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		_, err = fmt.Fprintln(c.out, "govulncheck: the code reaches no known vulnerability")
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() == found:
		return fmt.Errorf("the code reaches these vulnerabilities, take versions without them:\n%s", output)
	}
	if gone := c.reach(ctx); gone != nil {
		return c.skip(gone)
	}
	if bounded.Err() != nil {
		return c.skip(fmt.Errorf("the check has not ended within %s", c.checkTime))
	}
	return fmt.Errorf("govulncheck: %w\n%s", err, output)
}

// reach asks the database for the smallest of its files.
func (c checker) reach(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.answerTime)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("the vulnerability database cannot be reached: %w", err)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.database+"/index/db.json", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", c.database, response.Status)
	}
	return nil
}

func (c checker) skip(why error) error {
	_, err := fmt.Fprintf(c.out, "govulncheck: skipped, %v\n", why)
	return err
}
