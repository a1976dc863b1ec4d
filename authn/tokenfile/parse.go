package tokenfile

import (
	"errors"
	"io"
	"strings"

	"github.com/planekit/planekit/authn/internal/userlist"
)

// Parse reads the lines of a token file. Errors name the line, never the token. Unlike
// kube-apiserver, which ignores them or logs a warning, Parse fails on an empty token, on a
// repeated token (whose user would depend on the order of lines) and on groups in several columns.
func Parse(r io.Reader) ([]Entry, error) {
	lines, err := userlist.Format{File: "token file", Secret: "token", Check: check}.Parse(r)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(lines))
	for i, l := range lines {
		entries[i] = Entry{Token: l.Secret, User: l.User}
	}
	return entries, nil
}

func check(l userlist.Line) (unique, what string, err error) {
	if l.Secret != strings.TrimSpace(l.Secret) {
		return "", "", errors.New("the token begins or ends with a space") // not possible in a header
	}
	return l.Secret, "token", nil
}
