// Package printers writes objects for users and scripts, as kubectl does.
//
//	p := printers.NewTable(os.Stdout, printers.TableOptions{})
//	err := p.Print(table) // a metav1.Table from the server
//
// Tables come from the server, which knows the columns of its types. The printer does the layout:
// headings in upper case, three spaces between columns, columns of a priority above zero only when
// wide. When it prints several tables, such as those of a watch, it does not repeat headings, and
// columns do not become narrower. It escapes control characters in cells.
//
// [JSON] and [YAML] write whole objects without managedFields; [Name] writes names for scripts.
package printers

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This is the layout of kubectl, in characters.
const (
	minWidth = 6
	padding  = 3
)

// TableOptions configures the layout of tables. The zero value is that of kubectl get.
type TableOptions struct {
	// Wide includes the columns with a priority above zero.
	Wide bool
	// WithNamespace adds the namespace as the first column.
	WithNamespace bool
	// NoHeaders omits the headings.
	NoHeaders bool
	// Kind, if not empty, is a prefix of names, as in deployment.apps/nginx.
	Kind string
}

// Table prints tables. It is not safe for concurrent use.
type Table struct {
	w       io.Writer
	options TableOptions
	columns []metav1.TableColumnDefinition // of the last table that had any
	headed  bool                           // their headings have been printed
	widths  []int
	printed bool
}

// NewTable returns a printer that writes to w.
func NewTable(w io.Writer, o TableOptions) *Table { return &Table{w: w, options: o} }

// Printed reports whether anything has been printed.
func (p *Table) Printed() bool { return p.printed }

// Print writes the rows of t, and its headings unless they equal those of the previous table. A
// table without rows prints nothing.
func (p *Table) Print(t *metav1.Table) error {
	if len(t.ColumnDefinitions) > 0 && !slices.Equal(t.ColumnDefinitions, p.columns) {
		p.columns, p.headed, p.widths = t.ColumnDefinitions, false, nil
	}
	if len(t.Rows) == 0 {
		return nil
	}
	var lines [][]string
	if !p.headed && !p.options.NoHeaders {
		lines = append(lines, p.headings())
	}
	for i := range t.Rows {
		line, err := p.row(&t.Rows[i])
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	p.headed, p.printed = true, true
	return p.write(lines)
}

func (p *Table) shown(c *metav1.TableColumnDefinition) bool {
	return p.options.Wide || c.Priority == 0
}

func (p *Table) headings() []string {
	var line []string
	if p.options.WithNamespace {
		line = append(line, "NAMESPACE")
	}
	for i := range p.columns {
		if p.shown(&p.columns[i]) {
			line = append(line, strings.ToUpper(p.columns[i].Name))
		}
	}
	return line
}

func (p *Table) row(r *metav1.TableRow) ([]string, error) {
	var line []string
	if p.options.WithNamespace {
		var object metav1.PartialObjectMetadata
		if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
			return nil, fmt.Errorf("metadata of a table row: %w", err)
		}
		line = append(line, object.Namespace)
	}
	for i := range p.columns {
		if !p.shown(&p.columns[i]) {
			continue
		}
		text := ""
		if i < len(r.Cells) {
			text = cell(r.Cells[i])
		}
		if p.options.Kind != "" && p.columns[i].Format == "name" {
			text = p.options.Kind + "/" + text
		}
		line = append(line, text)
	}
	return line, nil
}

// cell returns the text of a cell up to the end of its first line.
func cell(value any) string {
	if value == nil {
		return ""
	}
	text, ok := value.(string)
	if !ok {
		text = fmt.Sprint(value)
	}
	if i := strings.IndexAny(text, "\f\n\r"); i >= 0 {
		text = text[:i] + "..."
	}
	return harmless(text)
}

// harmless escapes control characters, so that cells neither control the terminal nor break the
// layout.
func harmless(text string) string {
	text = strings.ReplaceAll(text, "\x1b", "^[")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// write prints lines in columns. The last cell of a line is not padded.
func (p *Table) write(lines [][]string) error {
	for _, line := range lines {
		for i, text := range line {
			if i == len(p.widths) {
				p.widths = append(p.widths, minWidth)
			}
			p.widths[i] = max(p.widths[i], utf8.RuneCountInString(text)+padding)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, text := range line {
			b.WriteString(text)
			if i < len(line)-1 {
				b.WriteString(strings.Repeat(" ", p.widths[i]-utf8.RuneCountInString(text)))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(p.w, b.String())
	return err
}

// None writes kubectl's message that no resources were found: in namespace, or at all if namespace
// is empty.
func None(w io.Writer, namespace string) error {
	text := "No resources found\n"
	if namespace != "" {
		text = "No resources found in " + namespace + " namespace.\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
