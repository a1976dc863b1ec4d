// Package continuation writes and reads the continue tokens of paged lists.
package continuation

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
)

// A Token says where a paged list goes on. It travels through the client
// and back, so nothing in it is trusted: its key must be among those that the
// request, which is authorized again, may list.
type Token struct {
	Version  string           `json:"v"`
	Revision storage.Revision `json:"rv"`
	After    storage.Key      `json:"after"`
}

const version = "planekit/v1"

// Newest in place of a revision goes on in the state there is then.
const Newest storage.Revision = -1

// Encode returns the token of a list that goes on after a key, in the state at revision.
func Encode(revision storage.Revision, after storage.Key) (string, error) {
	data, err := json.Marshal(Token{version, revision, after})
	return base64.RawURLEncoding.EncodeToString(data), err
}

// Decode reads a token for a list of the keys with prefix. Its errors are the client's.
func Decode(text string, prefix storage.Key) (Token, error) {
	var t Token
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, wire.BadRequest("continue key is not valid: not base64")
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, wire.BadRequest("continue key is not valid: not a token")
	}
	rest, inside := strings.CutPrefix(string(t.After), string(prefix))
	if t.Version != version || t.Revision <= 0 && t.Revision != Newest || !inside {
		return t, wire.BadRequest("continue key is not valid: it is not for this list")
	}
	if rest == "" {
		return t, nil // a list of one name: its key is the prefix
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if requestline.CheckSegment(segment) != nil {
			return t, wire.BadRequest("continue key is not valid: bad key")
		}
	}
	return t, nil
}
