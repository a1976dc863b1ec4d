package unsupported

import (
	"fmt"
	"strings"
)

// Markdown renders a table in the form used in COMPATIBILITY.md.
func Markdown(table []Row) string {
	var b strings.Builder
	b.WriteString("| in | kind or field | what happens instead |\n|---|---|---|\n")
	for _, row := range table {
		path := "the kind"
		if row.Path != "" {
			path = "`" + row.Path + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row.In, path, row.Effect)
	}
	return b.String()
}
