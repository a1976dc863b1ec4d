package apiserver

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// gzipFrom is the size from which responses are compressed for clients that
// ask: below it the time costs more than the bytes (kube-apiserver's figure).
const gzipFrom = 128 << 10

// write encodes obj and sends it. Where obj cannot be encoded the client gets
// an error instead.
func (s *Server) write(w http.ResponseWriter, r *http.Request, code int, out output, obj runtime.Object) {
	var data []byte
	var err error
	if out.media == mediaJSON && wantsPretty(r) {
		var buffer bytes.Buffer
		err = s.codec.pretty.Encode(obj, &buffer)
		data = buffer.Bytes()
	} else {
		data, err = s.codec.encode(out.media, obj)
	}
	if err != nil {
		s.config.Log.Error(err, "response cannot be encoded", "path", r.URL.Path)
		http.Error(w, "response cannot be encoded", http.StatusInternalServerError)
		return
	}
	s.writeBytes(w, r, code, out.media, data)
}

// writeJSON sends what is not an API object.
func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, code int, contentType string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.writeBytes(w, r, code, contentType, data)
	return nil
}

func (s *Server) writeBytes(w http.ResponseWriter, r *http.Request, code int, contentType string, data []byte) {
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

// ready reports whether the response is to show objects as they are kept ready.
func (q *request) ready() bool {
	return q.out.shape == whole && q.sub == nil &&
		(q.out.media == mediaProto || q.out.media == mediaJSON && !wantsPretty(q.r))
}

// respondItem sends one object as it is kept ready.
func (s *Server) respondItem(q *request, i *item) error {
	pooled := chunks.Get().(*[]byte)
	defer chunks.Put(pooled)
	data, err := q.kind.document((*pooled)[:0], q.out.media, i)
	*pooled = data // an object has at most a few MB
	if err != nil {
		return err
	}
	s.writeBytes(q.w, q.r, http.StatusOK, q.out.media, data)
	return nil
}

// writeBody sends a body piece by piece.
func (s *Server) writeBody(w http.ResponseWriter, r *http.Request, contentType string, b *body) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	zipped := b.size >= gzipFrom && acceptsGzip(r)
	if zipped {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
	} else {
		h.Set("Content-Length", strconv.Itoa(b.size))
	}
	w.WriteHeader(http.StatusOK)
	switch {
	case r.Method == http.MethodHead:
	case zipped:
		b.writeZipped(w)
	default:
		b.writeTo(w)
	}
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(strings.TrimSpace(part), ";"); name == "gzip" && strings.TrimSpace(q) != "q=0" {
			return true
		}
	}
	return false
}

func wantsPretty(r *http.Request) bool {
	pretty, err := strconv.ParseBool(r.URL.Query().Get("pretty"))
	return err == nil && pretty
}
