package house

import (
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variables are in programs that do not declare them.
var variables = map[string]bool{"chain.Validators": true, "nodes.Get": true, "quota.Status": true, "server.Snapshot": true}

var mention = regexp.MustCompile(`(?:^|[^\w./*&-])([a-z]\w*)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)

// own matches a link to a symbol of the same package.
var own = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Z][a-z]\w*)(?:\.([A-Z]\w*))?\]`)

// TestComments checks that the symbols of this module exist that comments name as package.Name, in
// sentences and in programs. It leaves out variables: those that a program in the same comment
// declares, and a few more.
func TestComments(t *testing.T) {
	all := packagesExcept(t, "bench", "compat", "bin", "testdata")
	folders := map[string][]string{} // of packages, by the last element
	for _, pkg := range all {
		folders[path.Base(pkg)] = append(folders[path.Base(pkg)], pkg)
	}
	checked := 0
	for _, pkg := range all {
		files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			set := token.NewFileSet()
			source, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, group := range source.Comments {
				for _, m := range own.FindAllStringSubmatch(group.Text(), -1) {
					checked++
					if in := symbols(t, pkg); !has(in, m[1], m[2]) {
						t.Errorf("%s: there is no %s in the package", set.Position(group.Pos()), m[0])
					}
				}
				for _, m := range mention.FindAllStringSubmatch(group.Text(), -1) {
					within := folders[m[1]]
					if within == nil || variables[m[1]+"."+m[2]] || regexp.MustCompile(`\b`+m[1]+`\b[^\n]*:=`).MatchString(group.Text()) {
						continue
					}
					checked++
					if !slices.ContainsFunc(within, func(pkg string) bool {
						in := symbols(t, pkg)
						return has(in, m[2], m[3]) || in[m[2]] && !hasMembers(in, m[2])
					}) {
						t.Errorf("%s: there is no %s", set.Position(group.Pos()), strings.Trim(m[0], " \n\t(["))
					}
				}
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d names were found", checked)
	}
}

// hasMembers reports whether name is a type with members, and not a variable.
func hasMembers(in map[string]bool, name string) bool {
	for symbol := range in {
		if strings.HasPrefix(symbol, name+".") {
			return true
		}
	}
	return false
}
