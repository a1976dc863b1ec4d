package aggregate

import (
	"encoding/json"
	"net/url"
)

// hashIn finds the hash of the document at path in an OpenAPI v3 index. It is
// empty where there is no such document.
func hashIn(index []byte, path string) string {
	var parsed struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if json.Unmarshal(index, &parsed) != nil {
		return ""
	}
	at, err := url.Parse(parsed.Paths[path].URL)
	if err != nil {
		return ""
	}
	return at.Query().Get("hash")
}
