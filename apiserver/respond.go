package apiserver

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/pieces"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"k8s.io/apimachinery/pkg/runtime"
)

// gzipFrom is the size from which responses are compressed for clients that
// ask: below it the time costs more than the bytes (kube-apiserver's figure).
const gzipFrom = 128 << 10

// A responder encodes and sends responses.
type responder struct {
	codec *wire.Codec
	log   logr.Logger
}

// write encodes obj and sends it. Where obj cannot be encoded the client gets
// an error instead.
func (p *responder) write(w http.ResponseWriter, r *http.Request, code int, out wire.Output, obj runtime.Object) {
	var data []byte
	var err error
	if out.Media == wire.JSON && wantsPretty(r) {
		data, err = p.codec.EncodePretty(obj)
	} else {
		data, err = p.codec.Encode(out.Media, obj)
	}
	if err != nil {
		p.log.Error(err, "response cannot be encoded", "path", r.URL.Path)
		http.Error(w, "response cannot be encoded", http.StatusInternalServerError)
		return
	}
	p.writeBytes(w, r, code, out.Media, data)
}

// writeJSON sends what is not an API object.
func (p *responder) writeJSON(w http.ResponseWriter, r *http.Request, code int, contentType string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.writeBytes(w, r, code, contentType, data)
	return nil
}

func (p *responder) writeBytes(w http.ResponseWriter, r *http.Request, code int, contentType string, data []byte) {
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
	return q.out.Shape == wire.Whole && q.sub == nil &&
		(q.out.Media == wire.Proto || q.out.Media == wire.JSON && !wantsPretty(q.r))
}

// buffers holds buffers for single objects.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// respondItem sends one object as it is kept ready.
func (p *responder) respondItem(q *request, i *item) error {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	data, err := q.kind.document((*pooled)[:0], q.out.Media, i)
	*pooled = data // an object has at most a few MB
	if err != nil {
		return err
	}
	p.writeBytes(q.w, q.r, http.StatusOK, q.out.Media, data)
	return nil
}

// writeBody sends a body piece by piece.
func (p *responder) writeBody(w http.ResponseWriter, r *http.Request, contentType string, b *pieces.Body) {
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

// respond sends one object in the shape that the client asked for.
func (p *responder) respond(q *request, code int, obj runtime.Object) error {
	switch q.out.Shape {
	case wire.Table:
		t, err := q.kind.tableOf(q, obj)
		if err != nil {
			return err
		}
		obj = t
	case wire.Metadata:
		obj = partial(obj)
	}
	if q.out.Shape != wire.Table && q.out.Media != wire.Proto && !q.ownType() {
		obj = shown(obj, q.hiding.is)
	}
	p.write(q.w, q.r, code, q.out, obj)
	return nil
}

// respondList sends a listing in the shape that the client asked for.
func (p *responder) respondList(q *request, l *listing) error {
	if q.ready() && q.kind.forms.lists()[q.out.Media] {
		b, err := q.kind.listBody(q.out.Media, l)
		if err != nil {
			return err
		}
		p.writeBody(q.w, q.r, q.out.Media, b)
		return nil
	}
	if q.out == (wire.Output{Media: wire.JSON, Shape: wire.Table}) && !wantsPretty(q.r) {
		b, err := q.kind.tableBody(q, l)
		if err != nil {
			return err
		}
		p.writeBody(q.w, q.r, q.out.Media, b)
		return nil
	}
	if q.out.Shape == wire.Metadata && q.out.Media != wire.YAML && !wantsPretty(q.r) {
		b, err := q.kind.partialBody(q.out.Media, l)
		if err != nil {
			return err
		}
		p.writeBody(q.w, q.r, q.out.Media, b)
		return nil
	}
	var list runtime.Object
	var err error
	switch q.out.Shape {
	case wire.Table:
		list, err = q.kind.table(q, l)
	case wire.Metadata:
		if list, err = partialList(l); err == nil && l.hasHidden() && q.out.Media != wire.Proto {
			b, err := q.kind.partialBody(wire.JSON, l)
			if list, err = withHidden(list, b, err); err != nil {
				return err
			}
		}
	default:
		if list, err = q.kind.listObject(l); err == nil && l.hasHidden() && q.out.Media != wire.Proto {
			b, err := q.kind.jsonList(l)
			if list, err = withHidden(list, b, err); err != nil {
				return err
			}
		}
	}
	if err != nil {
		return err
	}
	p.write(q.w, q.r, http.StatusOK, q.out, list)
	return nil
}

// digest names content, for ETags and the hashes of OpenAPI documents.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

// writeTagged sends v as JSON under an ETag, or nothing where the client has it.
func (p *responder) writeTagged(w http.ResponseWriter, r *http.Request, media string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.writeTaggedBytes(w, r, media, data, digest(data))
	return nil
}

func (p *responder) writeTaggedBytes(w http.ResponseWriter, r *http.Request, media string, data []byte, hash string) {
	tag := `"` + hash + `"`
	w.Header().Set("ETag", tag)
	w.Header().Add("Vary", "Accept")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	p.writeBytes(w, r, http.StatusOK, media, data)
}
