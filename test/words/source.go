package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// columns is the largest width of a line of Go, and tab the width of a tab.
const (
	columns = 120
	tab     = 4
)

// checkGo returns the findings of a Go file. A generated file has none.
func checkGo(name string, content []byte, patterns []pattern) ([]finding, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	texts := comments(files, file)
	texts = append(texts, messages(files, file)...)
	found := checkWidth(content)
	for _, text := range texts {
		found = append(found, text.check(patterns, true)...)
	}
	for _, name := range testNames(files, file) {
		found = append(found, name.check(patterns, false)...)
	}
	return found, nil
}

// directive is a comment for a tool.
var directive = regexp.MustCompile(`^//([a-z]+:[a-z]|line |export |extern | \+build )`)

func comments(files *token.FileSet, file *ast.File) []prose {
	var all []prose
	for _, group := range file.Comments {
		var lines []string
		for _, comment := range group.List {
			text := strings.TrimSuffix(strings.TrimPrefix(comment.Text, "/*"), "*/")
			text = strings.TrimPrefix(strings.TrimPrefix(text, "//"), " ")
			if directive.MatchString(comment.Text) {
				text = ""
			}
			lines = append(lines, strings.Split(text, "\n")...)
		}
		all = append(all, paragraphs(lines, files.Position(group.Pos()).Line)...)
	}
	return all
}

// messages returns the string literals that are prose: four words or more on one line. These are messages, help texts
// and the names of test cases. Concatenated literals are one text. A text of several lines is a file, a script or
// output of a program.
func messages(files *token.FileSet, file *ast.File) []prose {
	var all []prose
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			return node.Tag == nil
		case *ast.BinaryExpr, *ast.BasicLit:
			var p prose
			ok := concatenate(&p, files, node.(ast.Expr))
			if ok && plainWords.MatchString(p.text) && !strings.Contains(strings.TrimSpace(p.text), "\n") {
				all = append(all, p)
			}
			return !ok
		}
		return true
	})
	return all
}

// plainWords are four words of prose.
var plainWords = regexp.MustCompile(`(^|\s)([\pL'’-]+[,:;.]?\s+){3}[\pL'’-]+([,:;.]?\s|$)`)

// concatenate appends the text of string literals joined with +; any other operand becomes a name in it.
func concatenate(p *prose, files *token.FileSet, x ast.Expr) (ok bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind == token.STRING {
			text, err := strconv.Unquote(x.Value)
			p.glue(text, files.Position(x.Pos()).Line)
			return err == nil
		}
	case *ast.BinaryExpr:
		if x.Op != token.ADD {
			return false
		}
		left := concatenate(p, files, x.X)
		if !left {
			p.glue("%v", files.Position(x.X.Pos()).Line)
		}
		right := concatenate(p, files, x.Y)
		if !right {
			p.glue("%v", files.Position(x.Y.Pos()).Line)
		}
		return left || right
	}
	return false
}

// testNames returns the names of the tests as sentences.
func testNames(files *token.FileSet, file *ast.File) []prose {
	var all []prose
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(function.Name.Name, "Test") {
			continue
		}
		var p prose
		p.add(capital.ReplaceAllString(function.Name.Name, " $0"), files.Position(function.Pos()).Line)
		all = append(all, p)
	}
	return all
}

var capital = regexp.MustCompile(`[A-Z]`)

// checkWidth refuses lines that are too wide. A string of more than 80 columns without a space does not count: an
// address, a digest or a path cannot be divided. Raw strings of several lines are not measured.
func checkWidth(content []byte) []finding {
	inRaw, unbreakable := literals(content)
	var found []finding
	for i, line := range strings.Split(string(content), "\n") {
		n := i + 1
		if width := widthOf(line) - unbreakable[n]; width > columns && !inRaw[n] {
			says := fmt.Sprintf("%d columns, at most %d", width, columns)
			found = append(found, finding{line: n, says: says})
		}
	}
	return found
}

func widthOf(line string) int {
	return utf8.RuneCountInString(line) + (tab-1)*strings.Count(line, "\t")
}

// literals returns the lines of raw strings of several lines, and by line the columns that do not count.
func literals(content []byte) (inRaw map[int]bool, unbreakable map[int]int) {
	inRaw, unbreakable = map[int]bool{}, map[int]int{}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(content))
	var s scanner.Scanner
	s.Init(file, content, nil, 0)
	for {
		pos, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return inRaw, unbreakable
		case token.STRING:
			line := file.Line(pos)
			if lines := strings.Count(text, "\n"); lines > 0 {
				for n := line; n <= line+lines; n++ {
					inRaw[n] = true
				}
			} else if n := utf8.RuneCountInString(text); n > 80 && !strings.Contains(text, " ") {
				unbreakable[line] = n
			}
		}
	}
}
