package scenario

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// table is the output of kubectl get: a heading and rows, with columns separated by two or more
// spaces.
type table struct {
	columns []string
	rows    [][]string
}

var gap = regexp.MustCompile(`\s{2,}`)

// parseTable splits rows at the positions of the headings, because cells may be empty.
func parseTable(text string) table {
	var t table
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		if line == "" {
			continue
		}
		cells := gap.Split(line, -1)
		if t.columns == nil {
			t.columns = cells
			continue
		}
		t.rows = append(t.rows, cells)
	}
	return t
}

// column returns the cells under name.
func (t table) column(name string) ([]string, error) {
	for i, column := range t.columns {
		if column != name {
			continue
		}
		var cells []string
		for _, row := range t.rows {
			if i >= len(row) {
				return nil, fmt.Errorf("row %q has no cell for %s", row, name)
			}
			cells = append(cells, row[i])
		}
		return cells, nil
	}
	return nil, fmt.Errorf("no column %s among %q", name, t.columns)
}

// compare returns an error that describes how got differs from want, or nil.
func compare(want, got table) error {
	if len(want.rows) != len(got.rows) {
		return fmt.Errorf("%d rows, want %d", len(got.rows), len(want.rows))
	}
	columns := make([][]string, len(want.columns))
	for i, name := range want.columns {
		if len(want.rows) == 0 {
			break
		}
		cells, err := got.column(name)
		if err != nil {
			return err
		}
		columns[i] = cells
	}
	used := make([]bool, len(got.rows))
next:
	for _, row := range want.rows {
		for i := range got.rows {
			if !used[i] && matches(row, columns, i) {
				used[i] = true
				continue next
			}
		}
		return fmt.Errorf("no row like %q", row)
	}
	return nil
}

func matches(want []string, columns [][]string, row int) bool {
	for i, pattern := range want {
		if i >= len(columns) {
			return false
		}
		if ok, err := path.Match(pattern, columns[i][row]); err != nil || !ok {
			return false
		}
	}
	return true
}
