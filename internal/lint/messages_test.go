package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// formatVerb matches a verb of a format, %% included.
	formatVerb = regexp.MustCompile(`%[-+# 0-9.\[\]*]*[a-zA-Z%]`)
	anyWord    = regexp.MustCompile(`\p{L}{2,}`)
	// testers are the names that a testing.TB has.
	testers = []string{"t", "b", "f", "tb"}
)

// mute returns the lines of failures whose format has no word, such as t.Errorf("%v %v", got, err), which do not say
// what was called and what was expected.
func mute(name string, source []byte) (lines []int, err error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || function.Sel.Name != "Errorf" && function.Sel.Name != "Fatalf" {
			return true
		}
		tester, ok := function.X.(*ast.Ident)
		if !ok || !slices.Contains(testers, tester.Name) {
			return true
		}
		if literal, ok := call.Args[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(literal.Value)
			if err == nil && !anyWord.MatchString(formatVerb.ReplaceAllString(text, "")) {
				lines = append(lines, files.Position(call.Pos()).Line)
			}
		}
		return true
	})
	return lines, nil
}

func TestMessages(t *testing.T) {
	sources(t, func(path string, source []byte) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := mute(name, source)
		if err != nil {
			t.Error(err)
		}
		for _, line := range lines {
			t.Errorf("%s:%d: a failure without a word; write: Get(%%q) = %%v, want %%v", name, line)
		}
	})
}

func TestMessagesFinds(t *testing.T) {
	for statement, found := range map[string]bool{
		`t.Errorf("%v %v", got, err)`:                    true,
		`t.Fatalf("%-20s: %+v (%6.2f%%)", name, got, f)`: true,
		"b.Fatalf(`%q\n%q`, got, want)":                  true,
		`t.Errorf("Get(%q) = %v, want %v", k, got, v)`:   false,
		`t.Errorf("%d pods, want %d", got, want)`:        false,
		`t.Errorf(format, got)`:                          false,
		`fmt.Errorf("%v: %w", name, err)`:                false,
	} {
		source := strings.Join([]string{"package a", "func f() {", statement, "}"}, "\n")
		if lines, err := mute("a.go", []byte(source)); err != nil || slices.Equal(lines, []int{3}) != found {
			t.Errorf("mute(%q) = %v, %v, want line 3 found: %v", statement, lines, err, found)
		}
	}
}
