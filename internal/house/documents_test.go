package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// documents returns the text of each Markdown document.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			out[filepath.ToSlash(file)] = read(t, file)
		}
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var (
	link    = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

// TestLinks checks that links lead somewhere, and that a link leads to each page below docs.
func TestLinks(t *testing.T) {
	all := documents(t)
	linked := map[string]bool{}
	for from, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := from
			if strings.Contains(m[1], "://") {
				continue
			} else if m[1] != "" {
				to = path.Join(path.Dir(from), m[1])
				linked[to] = true
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", from, m[1], err)
			}
			if m[2] != "" && !slices.Contains(anchors(all[to]), m[2]) {
				t.Errorf("%s links to %s, which has no %s", from, to, m[2])
			}
		}
	}
	for page := range all {
		if strings.HasPrefix(page, "docs/") && !linked[page] && !linked[path.Dir(page)] {
			t.Errorf("nothing links to %s", page)
		}
	}
}

func anchors(text string) (out []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		out = append(out, "#"+strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return out
}

var (
	fenced = regexp.MustCompile("(?ms)^```.*?^```$")
	span   = regexp.MustCompile("`([^`\n]+)`")
	test   = regexp.MustCompile(`^(Test|Benchmark)[A-Z]\w*`)
	symbol = regexp.MustCompile(`^([a-z]+)\.([A-Z]\w*)(\.([A-Z]\w*))?`)
)

// TestNames checks that the files, packages, symbols and tests that documents name exist.
func TestNames(t *testing.T) {
	folders := map[string][]string{} // of packages, by the last element
	for _, pkg := range publicPackages(t) {
		folders[path.Base(pkg)] = append(folders[path.Base(pkg)], pkg)
	}
	functions := testFunctions(t)
	for document, text := range documents(t) {
		text = fenced.ReplaceAllString(text, "")
		for line := range strings.Lines(text) {
			if strings.Count(line, "`")%2 != 0 {
				t.Errorf("%s: code goes on in the next line: %s", document, line)
			}
		}
		for _, m := range span.FindAllStringSubmatch(text, -1) {
			name, _, _ := strings.Cut(m[1], " ")
			first, _, _ := strings.Cut(name, "/")
			if info, err := os.Stat(first); err == nil && (info.IsDir() || name == first) {
				if _, err := os.Stat(name); err != nil && !strings.HasPrefix(name, "bin/") {
					t.Errorf("%s: `%s` begins with a file or folder that there is, but %v", document, m[1], err)
				}
			}
			if strings.HasSuffix(name, ".go") {
				if _, err := os.Stat(name); err != nil {
					t.Errorf("%s: `%s` names a Go file, but %v", document, m[1], err)
				}
			}
			if function := test.FindString(name); function != "" && !functions[function] {
				t.Errorf("%s: there is no %s", document, function)
			}
			if s := symbol.FindStringSubmatch(name); s != nil && folders[s[1]] != nil {
				if !slices.ContainsFunc(folders[s[1]], func(pkg string) bool { return has(symbols(t, pkg), s[2], s[4]) }) {
					t.Errorf("%s: there is no %s", document, s[0])
				}
			}
		}
	}
}

// has reports whether a package has name, with the member if one is given. A name alone may also be
// the method of some type.
func has(in map[string]bool, name, member string) bool {
	if member != "" {
		return in[name+"."+member]
	}
	return in[name] || in["."+name]
}

// testFunctions returns the names of tests and benchmarks of all modules.
func testFunctions(t *testing.T) map[string]bool {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)`)
	out := map[string]bool{}
	err := filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, "_test.go") {
			for _, m := range declared.FindAllStringSubmatch(read(t, file), -1) {
				out[m[1]] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var symbolsOf = map[string]map[string]bool{}

// symbols returns what a package declares: functions and types, Type.Name for methods and fields,
// and .Name for methods of any type.
func symbols(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	if out := symbolsOf[pkg]; out != nil {
		return out
	}
	out := map[string]bool{}
	symbolsOf[pkg] = out
	files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range source.Decls {
			addSymbols(out, declaration)
		}
	}
	return out
}

func addSymbols(out map[string]bool, declaration ast.Decl) {
	fields := func(owner string, list *ast.FieldList) {
		for _, field := range list.List {
			for _, name := range field.Names {
				out[owner+"."+name.Name] = true
			}
		}
	}
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			out[d.Name.Name] = true
			return
		}
		receiver := d.Recv.List[0].Type
		if star, ok := receiver.(*ast.StarExpr); ok {
			receiver = star.X
		}
		if generic, ok := receiver.(*ast.IndexExpr); ok {
			receiver = generic.X
		}
		if name, ok := receiver.(*ast.Ident); ok {
			out[name.Name+"."+d.Name.Name] = true
		}
		out["."+d.Name.Name] = true
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					out[name.Name] = true
				}
			case *ast.TypeSpec:
				out[spec.Name.Name] = true
				switch body := spec.Type.(type) {
				case *ast.StructType:
					fields(spec.Name.Name, body.Fields)
				case *ast.InterfaceType:
					fields(spec.Name.Name, body.Methods)
				}
			}
		}
	}
}

// TestFlags checks that a program has each flag that documents give for planekit's programs.
func TestFlags(t *testing.T) {
	known := map[string]bool{"help": true}
	word := regexp.MustCompile(`"([a-z][a-z0-9-]+)"`)
	for _, pattern := range []string{"examples/*/*.go", "examples/cluster/*/*.go", "bench/*/*.go", "plane/kubeflags/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if source := read(t, file); !strings.HasSuffix(file, "_test.go") && strings.Contains(strings.ToLower(source), "flag") {
				for _, m := range word.FindAllStringSubmatch(source, -1) {
					known[m[1]] = true
				}
			}
		}
	}
	named := regexp.MustCompile(`(?:^|[ "])--([a-z][a-z0-9-]*)(\*?)`)
	for document, text := range documents(t) {
		for _, code := range codeOf(text) {
			if strings.Contains(code, "kubectl") || strings.Contains(code, "planectl run") {
				continue
			}
			for _, m := range named.FindAllStringSubmatch(code, -1) {
				ok := known[m[1]]
				for name := range known {
					ok = ok || m[2] == "*" && strings.HasPrefix(name, m[1])
				}
				if !ok {
					t.Errorf("%s: no program has the flag --%s", document, m[1])
				}
			}
		}
	}
}

// codeOf returns the code spans and the indented lines of a document.
func codeOf(text string) (out []string) {
	text = fenced.ReplaceAllString(text, "")
	for _, m := range span.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "    ") {
			out = append(out, line)
		}
	}
	return out
}

// TestCommands checks that the commands of documents can be run.
func TestCommands(t *testing.T) {
	makefile := read(t, "Makefile")
	target := regexp.MustCompile(`\bmake ([a-z][\w-]*)`)
	script := regexp.MustCompile(`\bscripts/[\w-]+`)
	program := regexp.MustCompile(`cd bench && go (?:run|test.*) \./(\w+)`)
	for document, text := range documents(t) {
		for _, code := range codeOf(text) {
			for _, m := range target.FindAllStringSubmatch(code, -1) {
				if !strings.Contains(makefile, "\n"+m[1]+":") {
					t.Errorf("%s: make has no target %s", document, m[1])
				}
			}
			files := script.FindAllString(code, -1)
			for _, m := range program.FindAllStringSubmatch(code, -1) {
				files = append(files, "bench/"+m[1])
			}
			for _, file := range files {
				if _, err := os.Stat(file); err != nil {
					t.Errorf("%s: a command runs %s, but %v", document, file, err)
				}
			}
		}
	}
	for _, command := range []string{"\n    make cluster\n", "\n    make test\n"} {
		if !strings.Contains(read(t, "README.md"), command) {
			t.Errorf("README.md has no command %q", command)
		}
	}
}

// TestPrograms checks that the programs in the README and below docs/for are taken from files that are compiled,
// and are short.
func TestPrograms(t *testing.T) {
	readme := read(t, "README.md")
	if n := strings.Count(readme, "```go"); n != 3 {
		t.Errorf("README.md has %d programs, want 3", n)
	}
	pages, err := filepath.Glob("docs/for/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("Glob(docs/for/*.md) = %v, %v, want at least 5 pages", pages, err)
	}
	for _, page := range append(pages, "README.md") {
		checkPrograms(t, page)
	}
	if lines := strings.Count(readme, "\n"); lines > 160 {
		t.Errorf("README.md has %d lines", lines)
	}
}

// checkPrograms checks that each program in a page names the file that it is taken from.
func checkPrograms(t *testing.T, page string) {
	t.Helper()
	text := read(t, page)
	programs := regexp.MustCompile("(?s)<!-- from ([^ ]+) -->\n```go\n(.*?)```\n").FindAllStringSubmatch(text, -1)
	if all := strings.Count(text, "```go"); len(programs) == 0 || len(programs) != all {
		t.Errorf("%s has %d programs that say where they are from, want all %d, and one at least", page, len(programs), all)
	}
	for _, m := range programs {
		source := read(t, m[1])
		found := false
		for _, indent := range []string{"", "\t", "\t\t"} {
			found = found || strings.Contains(strings.ReplaceAll(source, "\n"+indent, "\n"), "\n"+m[2])
		}
		if !found {
			t.Errorf("the program in %s is not in %s:\n%s", page, m[1], m[2])
		}
		if lines := strings.Count(m[2], "\n"); lines > 40 {
			t.Errorf("the program from %s has %d lines, more than 40", m[1], lines)
		}
	}
}

// TestFigures checks that the README's figures are those of BENCHMARKS.md, that those are in the pages
// that they link to, and that the ratios follow from them.
func TestFigures(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "README.md"), "## Beside the peers")
	table, _, _ = strings.Cut(table, "\n## ")
	summary := read(t, "BENCHMARKS.md")
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !strings.Contains(summary, "\n"+strings.TrimSuffix(line, "\n")) {
			t.Errorf("BENCHMARKS.md does not have the README's row %s", line)
		}
	}
	number := regexp.MustCompile(`\d[\d,.]*`)
	rows := 0
	for line := range strings.Lines(summary) {
		cells := strings.Split(line, " | ")
		to := link.FindStringSubmatch(line)
		if len(cells) != 5 || to == nil {
			continue
		}
		rows++
		page := number.FindAllString(read(t, to[1]), -1)
		for _, figure := range number.FindAllString(cells[1]+" "+cells[2], -1) {
			if !slices.Contains(page, figure) {
				t.Errorf("%s does not have the figure %s of BENCHMARKS.md", to[1], figure)
			}
		}
		ratio := quantity(t, cells[2]) / quantity(t, cells[1])
		if strings.HasSuffix(cells[1], "/s") {
			ratio = 1 / ratio
		}
		if said := quantity(t, cells[3]); math.Abs(said/ratio-1) > 0.05 {
			t.Errorf("%s is %.3g to 1, not %.3g", cells[0], ratio, said)
		}
	}
	if rows < 12 {
		t.Errorf("BENCHMARKS.md has %d rows with figures", rows)
	}
}

// TestDecisions checks that the figures on a page of a decision are on the page of benchmarks that it
// links to.
func TestDecisions(t *testing.T) {
	pages, err := filepath.Glob("docs/decisions/*.md")
	if err != nil {
		t.Fatal(err)
	}
	figures := regexp.MustCompile(`\b\d+(?:\.\d+)?`)
	benchmarks := regexp.MustCompile(`\.\./(benchmarks/\w+\.md)`)
	all := 0
	for _, page := range pages {
		_, measured, found := strings.Cut(read(t, page), "## Measured\n")
		if !found && path.Base(page) != "README.md" {
			t.Errorf("%s does not say what was measured", page)
		}
		measured, _, _ = strings.Cut(measured, "\n## ")
		to := benchmarks.FindStringSubmatch(measured)
		if to == nil {
			continue
		}
		plain := func(text string) []string { return figures.FindAllString(strings.ReplaceAll(text, ",", ""), -1) }
		have := plain(read(t, "docs/"+to[1]))
		for _, figure := range plain(span.ReplaceAllString(measured, "")) {
			all++
			if !slices.Contains(have, figure) {
				t.Errorf("docs/%s does not have the figure %s of %s", to[1], figure, page)
			}
		}
	}
	if all < 40 {
		t.Errorf("the pages of decisions have only %d figures", all)
	}
}

// quantity returns the first quantity in a cell of a table.
func quantity(t *testing.T, cell string) float64 {
	t.Helper()
	m := regexp.MustCompile(`^([\d,.]+)(?: (ns|us|ms))?`).FindStringSubmatch(strings.ReplaceAll(cell, ",", ""))
	if m == nil {
		t.Fatalf("%q has no figure", cell)
	}
	value, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value * map[string]float64{"": 1, "ns": 1e-9, "us": 1e-6, "ms": 1e-3}[m[2]]
}

// TestEveryPackageIsDescribed checks that ARCHITECTURE.md names each public package in the row of its
// room.
func TestEveryPackageIsDescribed(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "## The rooms")
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		if m := regexp.MustCompile("^\\| `([a-z]+)`").FindStringSubmatch(line); m != nil {
			rows[m[1]] = line
		}
	}
	for _, pkg := range publicPackages(t) {
		room, below, _ := strings.Cut(pkg, "/")
		if row, ok := rows[room]; room != "examples" && (!ok || below != "" && !strings.Contains(row, "`"+below+"`")) {
			t.Errorf("ARCHITECTURE.md does not describe %s", pkg)
		}
	}
}
