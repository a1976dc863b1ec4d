package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/planekit/planekit/storage"
)

// continueToken says where a paged list goes on. It travels through the client
// and back, so nothing in it is trusted: its key must lie in what the request,
// which is authorized anew, may list.
type continueToken struct {
	Version  string           `json:"v"`
	Revision storage.Revision `json:"rv"`
	After    storage.Key      `json:"after"`
}

const continueVersion = "planekit/v1"

// newest in place of a revision goes on in the state there is then.
const newest storage.Revision = -1

func encodeContinue(revision storage.Revision, after storage.Key) (string, error) {
	data, err := json.Marshal(continueToken{continueVersion, revision, after})
	return base64.RawURLEncoding.EncodeToString(data), err
}

func decodeContinue(text string, prefix storage.Key) (continueToken, error) {
	var t continueToken
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return t, badRequest("continue key is not valid: not base64")
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return t, badRequest("continue key is not valid: not a token")
	}
	rest, inside := strings.CutPrefix(string(t.After), string(prefix))
	if t.Version != continueVersion || t.Revision <= 0 && t.Revision != newest || !inside {
		return t, badRequest("continue key is not valid: it is not for this list")
	}
	if rest == "" {
		return t, nil // a list of one name: its key is the prefix
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if checkSegment(segment) != nil {
			return t, badRequest("continue key is not valid: bad key")
		}
	}
	return t, nil
}
