package tokenfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/planekit/planekit/authn/user"
)

// Parse reads the lines of a token file. Errors name the line, never the
// token. Unlike kube-apiserver, which goes on after a warning, it fails on an
// empty token and on a token given twice: whom it stands for would depend on
// the order of lines.
func Parse(r io.Reader) ([]Entry, error) {
	lines := csv.NewReader(r)
	lines.FieldsPerRecord = -1
	var entries []Entry
	seen := make(map[string]int)
	for {
		record, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("token file: %w", err) // a csv.ParseError has the line
		}
		line, _ := lines.FieldPos(0)
		e, err := parseRecord(record)
		if err == nil && seen[e.Token] > 0 {
			err = fmt.Errorf("the same token as on line %d", seen[e.Token])
		}
		if err != nil {
			return nil, fmt.Errorf("token file: line %d: %w", line, err)
		}
		seen[e.Token] = line
		entries = append(entries, e)
	}
}

func parseRecord(record []string) (Entry, error) {
	if len(record) < 3 {
		return Entry{}, fmt.Errorf("has %d of at least 3 columns: token, user name, user uid", len(record))
	}
	e := Entry{Token: record[0], User: user.Info{Name: record[1], UID: record[2]}}
	switch {
	case e.Token == "":
		return Entry{}, errors.New("the token is empty")
	case e.Token != strings.TrimSpace(e.Token):
		return Entry{}, errors.New("the token begins or ends with a space")
	case e.User.Name == "":
		return Entry{}, errors.New("the user name is empty")
	}
	if len(record) > 3 {
		for group := range strings.SplitSeq(record[3], ",") {
			if group = strings.TrimSpace(group); group != "" {
				e.User.Groups = append(e.User.Groups, group)
			}
		}
	}
	return e, nil
}
