package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
)

// digest names content, for ETags and the hashes of OpenAPI documents.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// writeTagged sends v as JSON under an ETag, or nothing where the client has it.
func (s *Server) writeTagged(w http.ResponseWriter, r *http.Request, media string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.writeTaggedBytes(w, r, media, data, digest(data))
	return nil
}

func (s *Server) writeTaggedBytes(w http.ResponseWriter, r *http.Request, media string, data []byte, hash string) {
	tag := `"` + hash + `"`
	w.Header().Set("ETag", tag)
	w.Header().Add("Vary", "Accept")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	s.writeBytes(w, r, http.StatusOK, media, data)
}
