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

// logMessage returns the text of a call that logs a literal text through log.G, log.L or an entry made from them.
func logMessage(call *ast.CallExpr) (message string, ok bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !levels[method.Sel.Name] || len(call.Args) == 0 || !isEntry(method.X) {
		return "", false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	text, err := strconv.Unquote(literal.Value)
	return text, err == nil
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
	case strings.Contains(message, "%"):
		return "has data in it: use a field"
	}
	return ""
}

func TestBadMessage(t *testing.T) {
	for message, bad := range map[string]bool{
		"pod sandbox started": false, "CNI ADD failed": false, "Docker Engine is back": false,
		"SyncLoop (PLEG): event for pod": false,
		"":                               true, "Pod started": true, "pod started.": true, "pod %s started": true,
	} {
		got := badMessage(message)
		testutil.Assert(t, (got != "") == bad, "%q: %q", message, got)
	}
}
