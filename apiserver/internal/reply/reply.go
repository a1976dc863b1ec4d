// Package reply writes the answers of an API server: objects, JSON, bytes, and bodies in pieces. Large
// answers are compressed for clients that accept it.
package reply

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/pieces"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/runtime"
)

// gzipFrom is the size from which responses are compressed for clients that
// ask: below it the time costs more than the bytes (kube-apiserver's figure).
const gzipFrom = 128 << 10

// A Writer encodes and sends responses.
type Writer struct {
	Codec *wire.Codec
	Log   logr.Logger
}

// Object encodes obj and sends it. If obj cannot be encoded, the client gets an error instead.
func (p *Writer) Object(w http.ResponseWriter, r *http.Request, code int, out wire.Output, obj runtime.Object) {
	var data []byte
	var err error
	if out.Pretty {
		data, err = p.Codec.EncodePretty(obj)
	} else {
		data, err = p.Codec.Encode(out.Media, obj)
	}
	if err != nil {
		p.Log.Error(err, "response cannot be encoded", "path", r.URL.Path)
		http.Error(w, "response cannot be encoded", http.StatusInternalServerError)
		return
	}
	p.Bytes(w, r, code, out.Media, data)
}

// JSON sends what is not an API object.
func (p *Writer) JSON(w http.ResponseWriter, r *http.Request, code int, contentType string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.Bytes(w, r, code, contentType, data)
	return nil
}

// Bytes sends data.
func (p *Writer) Bytes(w http.ResponseWriter, r *http.Request, code int, contentType string, data []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	if len(data) >= gzipFrom && acceptsGzip(r) {
		var buffer bytes.Buffer
		z, err := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
		if err == nil {
			z.Write(data)
			z.Close()
			data = buffer.Bytes()
			h.Set("Content-Encoding", "gzip")
			h.Add("Vary", "Accept-Encoding")
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		w.Write(data)
	}
}

// Body sends a body piece by piece.
func (p *Writer) Body(w http.ResponseWriter, r *http.Request, contentType string, b *pieces.Body) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	zipped := b.Size >= gzipFrom && acceptsGzip(r)
	if zipped {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
	} else {
		h.Set("Content-Length", strconv.Itoa(b.Size))
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case r.Method == http.MethodHead:
	case zipped:
		b.WriteZipped(w)
	default:
		b.Write(w)
	}
}

// Tagged sends v as JSON under an ETag, or nothing if the client has it.
func (p *Writer) Tagged(w http.ResponseWriter, r *http.Request, media string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.TaggedBytes(w, r, media, data, Digest(data))
	return nil
}

// TaggedBytes sends data under the ETag hash, or nothing if the client has it.
func (p *Writer) TaggedBytes(w http.ResponseWriter, r *http.Request, media string, data []byte, hash string) {
	tag := `"` + hash + `"`
	w.Header().Set("ETag", tag)
	w.Header().Add("Vary", "Accept")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	p.Bytes(w, r, http.StatusOK, media, data)
}

// Digest names content, for ETags and the hashes of OpenAPI documents.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" && strings.TrimSpace(q) != "q=0" {
			return true
		}
	}
	return false
}
