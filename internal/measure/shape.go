package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxLines is the length of a function above which it is counted as long.
const maxLines = 60

// counts holds the measures of the Go files of a tree.
type counts struct {
	lines                  map[string]int // by part: library, programs, tests, bench and compat
	files                  map[string]int // by folder, without tests
	methods                map[string]int // by type
	exported, undocumented int
	long, longest          int // functions over maxLines, and the lines of the longest function
}

// shape returns the measures of a tree that need no build.
func shape(root string) ([]row, error) {
	c := &counts{lines: map[string]int{}, files: map[string]int{}, methods: map[string]int{}}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return c.add(filepath.ToSlash(relative), source)
	})
	if err != nil {
		return nil, err
	}
	places, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		return nil, err
	}
	return append(c.rows(), extensions(string(places))...), nil
}

// add counts one file.
func (c *counts) add(name string, source []byte) error {
	lines := strings.Count(string(source), "\n")
	room, _, _ := strings.Cut(name, "/")
	switch {
	case room == "bench" || room == "compat":
		c.lines["bench and compat"] += lines
		return nil
	case strings.HasSuffix(name, "_test.go"):
		c.lines["tests"] += lines
		return nil
	case room == "examples":
		c.lines["examples"] += lines
	default:
		c.lines["library"] += lines
	}
	folder := path.Dir(name)
	c.files[folder]++
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	public := file.Name.Name != "main" && !slices.Contains(strings.Split(folder, "/"), "internal")
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			c.function(folder, set, d, public)
		case *ast.GenDecl:
			if public {
				c.declarations(d)
			}
		}
	}
	return nil
}

// function counts a function or method.
func (c *counts) function(folder string, set *token.FileSet, f *ast.FuncDecl, public bool) {
	length := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1
	c.longest = max(c.longest, length)
	if length > maxLines {
		c.long++
	}
	if f.Recv != nil {
		receiver := receiverOf(f.Recv.List[0].Type)
		c.methods[folder+"."+receiver]++
		public = public && ast.IsExported(receiver)
	}
	if public && f.Name.IsExported() {
		c.name(f.Doc != nil)
	}
}

// receiverOf returns the name of the type of a receiver.
func receiverOf(x ast.Expr) string {
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// declarations counts the exported names of a declaration. A comment on a group documents all
// names in it.
func (c *counts) declarations(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Name.IsExported() {
				c.name(d.Doc != nil || spec.Doc != nil || spec.Comment != nil)
			}
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if name.IsExported() {
					c.name(d.Doc != nil || spec.Doc != nil || spec.Comment != nil)
				}
			}
		}
	}
}

// name counts an exported name.
func (c *counts) name(documented bool) {
	c.exported++
	if !documented {
		c.undocumented++
	}
}

// rows returns the measures in the order of the table.
func (c *counts) rows() []row {
	var all []row
	for _, part := range []string{"library", "examples", "tests", "bench and compat"} {
		all = append(all, row{"lines of Go: " + part, fmt.Sprint(c.lines[part])})
	}
	files := 0
	for _, n := range c.files {
		files += n
	}
	return append(all,
		row{"files without tests", fmt.Sprint(files)},
		row{"folders with Go files", fmt.Sprint(len(c.files))},
		row{"the ten fullest folders (files)", largest(c.files, 10)},
		row{"the types with the most methods", largest(c.methods, 5)},
		row{"exported names", fmt.Sprint(c.exported)},
		row{"exported names without a comment", fmt.Sprint(c.undocumented)},
		row{fmt.Sprintf("functions over %d lines", maxLines), fmt.Sprint(c.long)},
		row{"lines of the longest function", fmt.Sprint(c.longest)},
	)
}

// largest returns the n largest values with their names.
func largest(values map[string]int, n int) string {
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b))
	})
	var all []string
	for _, name := range names[:min(n, len(names))] {
		all = append(all, fmt.Sprintf("%s %d", name, values[name]))
	}
	return strings.Join(all, ", ")
}

// extensions returns, for each section on an addition, the number of places that it names: the
// files in its diffs, or else the steps of its list.
func extensions(document string) []row {
	_, document, _ = strings.Cut(document, "\n## Where do I add")
	document, _, _ = strings.Cut(document, "\n## ")
	var all []row
	for _, section := range strings.Split(document, "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		files, steps := 0, 0
		for line := range strings.Lines(body) {
			number, _, isStep := strings.Cut(line, ". ")
			switch {
			case strings.HasPrefix(line, "+++ "):
				files++
			case isStep && number != "" && strings.Trim(number, "0123456789") == "":
				steps++
			}
		}
		all = append(all, row{"places to touch for " + title, fmt.Sprint(cmp.Or(files, steps))})
	}
	return all
}
