package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// glossary lists phrases that comments must not use, as regular expressions that ignore
// case, and what to write instead.
var glossary = []struct{ word, instead string }{
	{`whoever|whomever|as whom`, "name the actor: the caller, a worker, the leader"},
	{`nobody|somebody|anybody|others (?:who|that)|(?:by|of|from|for|like) others`, "name the actor: no caller, another client"},
	{`(?:is|are|was|were|be|been|being|gets?) told|told of`, "receives, learns, is notified of; for \"told apart\", distinguish"},
	{`(?:tell|tells|telling) (?:of|that|whether|since)`, "reports, reports whether"},
	{`of late|in vain|says? all about|(?:at least|at most) so many`, "recently, without effect, the given number of"},
	{`anew`, "again"},
	{`in (?:its|their|his|whose) stead`, "instead"},
	{`(?:has|have|had) (?:it|them|key) be|so be it|be it|be they`, "say what happens"},
	{`as it was and as (?:it|they)`, "the old and the new"},
	{`,? for (?:it|they|he|there) (?:is|are|was|has|have|had|may|can|must|does|do|goes|would)`, "because"},
	{`personas?`, "impersonated user"},
	{`doom\w*`, "say what fails, or ends"},
	{`(?:un)?hurry|hurries|hurried`, "timeout, deadline"},
	{`unplaces?`, "release"},
	{`crowds?`, "load, many clients"},
	{`mend(?:s|ed|ing)?`, "fix, repair"},
	{`(?:has|have|had) (?:it|them|him) \w+ed`, "name the actor: X stores it"},
	{`(?:whatever|what) (?:becomes?|became|has become) of`, "say the result"},
	{`(?:lets?|letting) go`, "releases"},
	{`(?:hears?|heard|speaks?) of`, "receives, learns, describes"},
	{`as ever|for so long|long since|(?:come|comes|came) to be`, "today's words: as usual, for that time, without effect"},
	{`strangely|stranger?s?`, "unknown, unexpected, a user"},
	{`gladly|lest|thereof|therein|thereby|whereof|whilst|albeit|thrice|ere`, "today's word"},
}

// nouns lists words that declared names must not use, in lower case, and the standard term.
var nouns = map[string]string{
	"persona": "impersonated", "strange": "unknown", "doom": "evict, terminate", "doomed": "terminating",
	"hurry": "deadline", "unhurry": "deadline", "unplace": "release", "crowd": "load", "mended": "repaired",
	"whoever": "the actor", "whom": "the actor",
}

var (
	words   = regexp.MustCompile(`(?i)\b(?:` + alternatives() + `)\b`)
	phrases = compiled()
	// headless matches "who" without a noun before it: at the start of a sentence, or
	// after a preposition, a conjunction or a pronoun. A match with a question mark is a
	// question, which is allowed.
	headless = regexp.MustCompile(`(?:^Who|[.:;(] [Ww]ho|\b(?:of|for|to|by|from|with|than|as|on|in|before|after|and|or|but|if|` +
		`because|where|when|only|those|one|ones|all|each) who)\b[^.?]*(\??)`)
	// riddle matches a comment that begins "X is what" or "X is that of".
	riddle = regexp.MustCompile(`^\w+ (?:is|are) (?:what|whom|how (?:many|much)|(?:that|those) (?:of|that|which))\b`)
)

func alternatives() string {
	var all []string
	for _, row := range glossary {
		all = append(all, row.word)
	}
	return strings.Join(all, "|")
}

func compiled() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, row := range glossary {
		all = append(all, regexp.MustCompile(`(?i)^(?:`+row.word+`)$`))
	}
	return all
}

// A finding is a breach of the rules at one line of a file.
type finding struct {
	line          int
	word, instead string
}

// english returns the findings in the comments and the declared names of a file.
func english(name string, source []byte) ([]finding, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []finding
	for _, group := range file.Comments {
		text := group.Text()
		flat := strings.ReplaceAll(text, "\n", " ")
		add := func(at int, word, instead string) {
			line := files.Position(group.Pos()).Line + strings.Count(text[:at], "\n")
			all = append(all, finding{line, word, instead})
		}
		for _, at := range words.FindAllStringIndex(flat, -1) {
			word := flat[at[0]:at[1]]
			row := slices.IndexFunc(phrases, func(p *regexp.Regexp) bool { return p.MatchString(word) })
			add(at[0], word, glossary[row].instead)
		}
		for _, at := range headless.FindAllStringSubmatchIndex(flat, -1) {
			if at[2] == at[3] {
				who := at[0] + strings.Index(strings.ToLower(flat[at[0]:at[1]]), "who")
				add(who, "who without a noun", "name the actor: a caller that, the worker that")
			}
		}
		if at := riddle.FindStringIndex(flat); at != nil {
			add(0, flat[:at[1]], "a verb: X returns, X holds, X reports whether")
		}
	}
	declared(file, strings.HasSuffix(name, "_test.go"), func(ident *ast.Ident, doc *ast.CommentGroup) {
		line := files.Position(ident.Pos()).Line
		for _, word := range split(ident.Name) {
			if instead, ok := nouns[word]; ok {
				all = append(all, finding{line, ident.Name, instead})
			}
		}
		if doc != nil && ident.IsExported() {
			if !begins(doc.Text(), ident.Name) {
				all = append(all, finding{line, "the comment of " + ident.Name, "begin with the name"})
			}
		}
	})
	slices.SortStableFunc(all, func(a, b finding) int { return a.line - b.line })
	return all, nil
}

// begins reports whether a comment begins with name, an article or "Deprecated:".
func begins(text, name string) bool {
	first, rest, _ := strings.Cut(text, " ")
	if first == "A" || first == "An" || first == "The" {
		if second, _, _ := strings.Cut(rest, " "); word(second) == name {
			return true
		}
	}
	return word(first) == name || first == "Deprecated:"
}

// word returns the identifier at the beginning of text.
func word(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if end < 0 {
		return text
	}
	return text[:end]
}

// declared calls each with every name that file declares at its top level and with the
// comment of that name. The comment is nil if it documents several names, and in tests,
// whose names are not part of the package documentation.
func declared(file *ast.File, test bool, each func(*ast.Ident, *ast.CommentGroup)) {
	visit := func(ident *ast.Ident, doc *ast.CommentGroup) {
		if test {
			doc = nil
		}
		each(ident, doc)
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			visit(d.Name, d.Doc)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					doc := spec.Doc
					if doc == nil && !d.Lparen.IsValid() {
						doc = d.Doc
					}
					visit(spec.Name, doc)
				case *ast.ValueSpec:
					doc := spec.Doc
					if doc == nil && !d.Lparen.IsValid() {
						doc = d.Doc
					}
					for i, name := range spec.Names {
						if i > 0 {
							doc = nil
						}
						visit(name, doc)
					}
				}
			}
		}
	}
}

// split returns the words of a name in lower case.
func split(name string) []string {
	var all []string
	begin := 0
	for i, r := range name {
		if i > begin && unicode.IsUpper(r) {
			all, begin = append(all, strings.ToLower(name[begin:i])), i
		}
	}
	return append(all, strings.ToLower(name[begin:]))
}

func TestEnglish(t *testing.T) {
	sources(t, func(name string, source []byte) {
		name, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		found, err := english(name, source)
		if err != nil {
			t.Error(err)
		}
		for _, f := range found {
			t.Errorf("%s:%d: %s; write: %s", name, f.line, f.word, f.instead)
		}
	})
}

func TestEnglishFinds(t *testing.T) {
	for _, c := range []struct {
		source string
		want   string // line: word
	}{
		{"// Run runs.\nfunc Run() {}", ""},
		{"// A Store keeps records.\ntype Store struct{}", ""},
		{"// Runs it.\nfunc Run() {}", "3: the comment of Run"},
		{"// runs it.\nfunc run() {}", ""},
		{"// These are all.\nconst (\n\t// A is one.\n\tA = 1\n\t// the other\n\tB = 2\n)", "7: the comment of B"},
		{"func f() {\n\t// Whoever comes first\n\t// begins anew.\n}", "3: Whoever; 4: anew"},
		{"// f is told\n// of it.\nfunc f() {}", "2: is told"},
		{"// f wakes those who\n// wait.\nfunc f() {}", "2: who without a noun"},
		{"// f is last. Who asks is answered.\nfunc f() {}", "2: who without a noun"},
		{"// f belongs to the caller, who closes it, and says who called.\nfunc f() {}", ""},
		{"// Who may read? The rest follows.\nfunc f() {}", ""},
		{"// f is that of its caller,\n// whatever becomes of it.\nfunc f() {}", "2: f is that of; 3: whatever becomes of"},
		{"// f lets go of what it has. It could let them go, and has it stored.\nfunc f() {}", "2: lets go; 2: has it stored"},
		{"// f is what it returns.\nfunc f() {}", "2: f is what"},
		{"func rememberPersona() {}\n\ntype doomedPods int", "2: rememberPersona; 4: doomedPods"},
		{"var text = \"whoever\"", ""},
	} {
		found, err := english("a.go", []byte("package a\n"+c.source))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprintf("%d: %s", f.line, f.word))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s\nfound %q, want %q", c.source, strings.Join(got, "; "), c.want)
		}
	}
}
