package kubeconfig

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/internal/certfile"
	"github.com/planekit/planekit/internal/lastvalid"
)

// tokenEvery is the time between two looks at the file of a token, as in client-go: a minute, less 10
// seconds. Tokens in volumes are replaced at least 2 minutes before they expire.
const tokenEvery = 50 * time.Second

// tokenFile is the file of a bearer token. It is a client.Tokens.
type tokenFile struct{ followed[string] }

func openTokenFile(path string, failed func(error)) (*tokenFile, error) {
	value, err := lastvalid.New(func() ([][]byte, error) {
		data, err := certfile.Read(path)
		return [][]byte{data}, err
	}, func(contents [][]byte) (string, error) {
		token, err := parseToken(contents[0])
		if err != nil {
			return "", fmt.Errorf("%s %w", path, err)
		}
		return token, nil
	})
	if err != nil {
		return nil, err
	}
	return &tokenFile{followed[string]{value: value, failed: failed, checked: time.Now()}}, nil
}

// parseToken returns the token in a file. The error does not quote it.
func parseToken(data []byte) (string, error) {
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", errors.New("is empty")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", errors.New("has a character that is not allowed in a token")
	}
	return token, nil
}

// Token returns the token for a request.
func (f *tokenFile) Token() string {
	f.refresh(tokenEvery)
	return f.value.Current()
}

// Refused makes the next request read the file, unless that has another token already.
func (f *tokenFile) Refused(token string) {
	if token == f.value.Current() {
		f.mu.Lock()
		f.checked = time.Time{}
		f.mu.Unlock()
	}
}
