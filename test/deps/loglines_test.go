package deps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/criadapter/criadapter/internal/testutil"
)

// TestLogLines checks that the log lines of the programs have one style: lower case except names, no full stop, data in
// fields instead of the sentence. "SyncLoop ADD" is the kubelet's own line, which operators search for.
func TestLogLines(t *testing.T) {
	lines := 0
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if notOfThePrograms[strings.TrimPrefix(path, "../../")] {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fileSet := token.NewFileSet()
		file, err := parser.ParseFile(fileSet, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			message, isLine := logMessage(call)
			if !isLine {
				return true
			}
			lines++
			if wrong := badMessage(message); wrong != "" {
				t.Errorf("%s: %q %s", fileSet.Position(call.Pos()), message, wrong)
			}
			return true
		})
		return nil
	})
	testutil.Must(t, err)
	testutil.Assert(t, lines >= 100, "only %d log lines were found", lines)
}

// notOfThePrograms has the directories without packages of the programs.
var notOfThePrograms = map[string]bool{"build": true, "test": true, ".git": true}

// levels are the methods of a log entry that write a line.
var levels = map[string]bool{
	"Trace": true, "Debug": true, "Info": true, "Warn": true, "Error": true,
	"Tracef": true, "Debugf": true, "Infof": true, "Warnf": true, "Errorf": true,
}

// logMessage returns the text of a call that logs through log.G, log.L or an entry made from them. The text must begin
// with a literal.
func logMessage(call *ast.CallExpr) (message string, ok bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !levels[method.Sel.Name] || len(call.Args) == 0 || !isEntry(method.X) {
		return "", false
	}
	return joined(call.Args[0])
}

// joined returns the text of string literals that are joined with +. Any other operand becomes %v.
func joined(x ast.Expr) (text string, ok bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(x.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		left, ok := joined(x.X)
		right, isText := joined(x.Y)
		if !isText {
			right = "%v"
		}
		return left + right, ok
	}
	return "", false
}

// isEntry says whether an expression is an entry of the log: log.G(…), log.L, x.log, or one of these with fields.
func isEntry(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.CallExpr:
		made, ok := x.Fun.(*ast.SelectorExpr)
		return ok && (made.Sel.Name == "G" || made.Sel.Name == "log" || strings.HasPrefix(made.Sel.Name, "With"))
	case *ast.SelectorExpr:
		return x.Sel.Name == "L" || x.Sel.Name == "log" || x.Sel.Name == "logger"
	}
	return false
}

// properName is a first word that is written with a capital.
var properName = regexp.MustCompile(`^([A-Z]{2,}|Docker Engine|SyncLoop)\b`)

func badMessage(message string) string {
	switch {
	case message == "":
		return "says nothing"
	case message[0] >= 'A' && message[0] <= 'Z' && !properName.MatchString(message):
		return "begins with a capital"
	case strings.HasSuffix(message, "."):
		return "ends with a full stop"
	case strings.Contains(message, "%") && !strings.HasPrefix(message, "SyncLoop "):
		return "has data in it: use a field"
	}
	return ""
}

func TestLogMessage(t *testing.T) {
	for line, want := range map[string]string{
		`log.L.Warn("a")`: "a", `log.G(ctx).WithError(err).Info("a " + "b " + "c")`: "a b c",
		`log.L.Debug("a " + b.c + " d")`: "a %v d", `log.L.Debug(a + " b")`: "", `fmt.Print("a")`: "",
	} {
		call, err := parser.ParseExpr(line)
		testutil.Must(t, err)
		got, ok := logMessage(call.(*ast.CallExpr))
		testutil.Assert(t, ok == (want != "") && (!ok || got == want), "%s: %q, %t", line, got, ok)
	}
}

func TestBadMessage(t *testing.T) {
	for message, bad := range map[string]bool{
		"pod sandbox started": false, "CNI ADD failed": false, "Docker Engine is back": false,
		"SyncLoop (PLEG): event for pod": false, "SyncLoop %v": false,
		"": true, "Pod started": true, "pod started.": true, "pod %s started": true,
	} {
		got := badMessage(message)
		testutil.Assert(t, (got != "") == bad, "%q: %q", message, got)
	}
}
