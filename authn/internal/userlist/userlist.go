// Package userlist reads the files in which kube-apiserver lists users with their tokens or
// passwords: CSV lines of a secret, a user name, a UID, and the groups in one optional column.
package userlist

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// Format describes a kind of file.
type Format struct {
	// File and Secret name the file and the secret in errors.
	File, Secret string
	// Check returns a string that must be unique among the lines and what to call it in errors, or
	// an error that does not quote the secret.
	Check func(Line) (unique, what string, err error)
}

// Line is one user.
type Line struct {
	Secret string
	User   user.Info
}

// Parse reads all lines. Errors name the line and never quote it. Unlike kube-apiserver, which
// ignores them or logs a warning, Parse fails on empty columns, duplicates and unquoted groups:
// they would make a user depend on the order of lines, or have fewer groups than intended.
func (f Format) Parse(r io.Reader) ([]Line, error) {
	records := csv.NewReader(r)
	records.FieldsPerRecord = -1
	var lines []Line
	seen := make(map[string]int)
	for {
		record, err := records.Read()
		if errors.Is(err, io.EOF) {
			return lines, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.File, err) // a csv.ParseError contains the line
		}
		number, _ := records.FieldPos(0)
		line, err := f.line(record)
		if err == nil {
			err = f.check(line, number, seen)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", f.File, number, err)
		}
		lines = append(lines, line)
	}
}

func (f Format) check(line Line, number int, seen map[string]int) error {
	unique, what, err := f.Check(line)
	if err != nil {
		return err
	}
	if seen[unique] > 0 {
		return fmt.Errorf("the same %s as on line %d", what, seen[unique])
	}
	seen[unique] = number
	return nil
}

func (f Format) line(record []string) (Line, error) {
	switch {
	case len(record) < 3:
		return Line{}, fmt.Errorf("has %d of at least 3 columns: %s, user name, user uid", len(record), f.Secret)
	case len(record) > 4:
		return Line{}, fmt.Errorf("has %d columns; several groups are one column, in quotes", len(record))
	}
	line := Line{Secret: record[0], User: user.Info{Name: record[1], UID: record[2]}}
	switch {
	case line.Secret == "":
		return Line{}, fmt.Errorf("the %s is empty", f.Secret)
	case line.User.Name == "":
		return Line{}, errors.New("the user name is empty")
	}
	if len(record) == 4 {
		for group := range strings.SplitSeq(record[3], ",") {
			if group = strings.TrimSpace(group); group != "" {
				line.User.Groups = append(line.User.Groups, group)
			}
		}
	}
	return line, nil
}
