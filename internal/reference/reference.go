// Package reference draws the pages below docs/reference from what the code declares. A test of each
// program or package that declares something calls it, so that the pages are as the code is.
//
//	var update = flag.Bool("update", false, "write docs/reference/planectl.md")
//
//	func TestReference(t *testing.T) {
//		reference.Check(t, "../../docs/reference/planectl.md", text, *update)
//	}
package reference

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Check fails t unless the file has the text. With update, it writes the file instead.
func Check(t testing.TB, file, text string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Errorf("WriteFile(%q) = %v, want nil", file, err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Errorf("ReadFile(%q) = %v, want nil: run this test with -update", file, err)
		return
	}
	if line, is, want, ok := difference(string(have), text); ok {
		t.Errorf("line %d of %s is %q, want %q: run this test with -update", line, file, is, want)
	}
}

// difference returns the first line in which two texts differ.
func difference(have, want string) (line int, is, should string, ok bool) {
	left, right := strings.Split(have, "\n"), strings.Split(want, "\n")
	at := func(lines []string, i int) string {
		if i < len(lines) {
			return lines[i]
		}
		return "(the end)"
	}
	for i := range max(len(left), len(right)) {
		if at(left, i) != at(right, i) {
			return i + 1, at(left, i), at(right, i), true
		}
	}
	return 0, "", "", false
}

// cell escapes what Markdown would read as the end of a cell or as HTML.
var cell = strings.NewReplacer("|", `\|`, "<", `\<`, "\n", " ", "*", `\*`)

// Table returns a table in Markdown. The text of cells is escaped but for what is in backquotes, which must be
// without a bar.
func Table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			if c == "" {
				b.WriteString(" |")
				continue
			}
			b.WriteString(" ")
			for i, part := range strings.Split(c, "`") {
				if i%2 == 0 {
					b.WriteString(cell.Replace(part))
				} else {
					b.WriteString("`" + part + "`")
				}
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	line(head)
	b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		line(row)
	}
	return b.String()
}

// Flags returns a table of flags. Hidden ones are left out.
func Flags(flags []*pflag.Flag) string {
	var rows [][]string
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		_, usage := pflag.UnquoteUsage(f)
		if f.Deprecated != "" {
			usage += " (deprecated: " + f.Deprecated + ")"
		}
		rows = append(rows, []string{name, f.Value.Type(), value, usage})
	}
	return Table([]string{"flag", "type", "default", "meaning"}, rows)
}

// All returns the flags of a set in the order of their names.
func All(set *pflag.FlagSet) (flags []*pflag.Flag) {
	set.VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
	return flags
}

// Commands returns a section for each command below c that can be run, with its own flags.
func Commands(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.Runnable() {
			b.WriteString("\n### " + sub.CommandPath() + "\n\n" + sub.Short + ".\n\n    " + sub.UseLine() + "\n")
			if flags := All(sub.LocalNonPersistentFlags()); len(flags) > 0 {
				b.WriteString("\n" + Flags(flags))
			}
		}
		b.WriteString(Commands(sub))
	}
	return b.String()
}
