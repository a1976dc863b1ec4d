package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const pageSize = 500

// server serves lists of pods in protobuf. They are encoded in advance and kept in a file, so that
// they need no memory. Like kube-apiserver, it answers a list from its cache (resourceVersion=0),
// as client-go requests it, in one piece, and other lists in pages. Its watches send nothing until
// expire, which ends them and makes earlier revisions too old.
type server struct {
	*httptest.Server
	file        *os.File
	generations []generation
	// expired is closed when the second generation replaces the first.
	expired chan struct{}
	size    int // of a pod, in bytes
}

// generation is one list, in pages and in one piece.
type generation struct {
	revision     string
	pages, whole []section
}

type section struct{ offset, size int64 }

// newServer serves the lists one after the other.
func newServer(lists ...[]*corev1.Pod) (*server, error) {
	file, err := os.CreateTemp("", "pods")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, err
	}
	s := &server{file: file, expired: make(chan struct{})}
	for i, pods := range lists {
		g := generation{revision: strconv.Itoa((i + 1) * 1_000_000)}
		for first := 0; first < len(pods); first += pageSize {
			if err := s.add(&g.pages, g.revision, pods[first:min(first+pageSize, len(pods))], first+pageSize < len(pods)); err != nil {
				return nil, err
			}
		}
		if err := s.add(&g.whole, g.revision, pods, false); err != nil {
			return nil, err
		}
		s.size = int(g.whole[0].size) / len(pods)
		s.generations = append(s.generations, g)
	}
	s.Server = httptest.NewServer(s)
	return s, nil
}

// add writes a list, or a page of one, to the file.
func (s *server) add(parts *[]section, revision string, pods []*corev1.Pod, more bool) error {
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: revision}}
	if more {
		list.Continue = strconv.Itoa(len(*parts) + 1)
	}
	for _, p := range pods {
		list.Items = append(list.Items, *p)
	}
	data, err := encode("PodList", list)
	if err != nil {
		return err
	}
	offset, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	*parts = append(*parts, section{offset, int64(len(data))})
	_, err = s.file.Write(data)
	return err
}

func encode(kind string, object interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	raw, err := object.Marshal()
	if err != nil {
		return nil, err
	}
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}).Marshal()
	return append([]byte("k8s\x00"), data...), err
}

func (s *server) expire() { close(s.expired) }

func (s *server) close() {
	s.CloseClientConnections()
	s.Close()
	s.file.Close()
}

func (s *server) now() generation {
	select {
	case <-s.expired:
		return s.generations[1]
	default:
		return s.generations[0]
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, g := r.URL.Query(), s.now()
	w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
	switch {
	case q.Get("sendInitialEvents") != "":
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case q.Get("watch") != "" && q.Get("resourceVersion") != g.revision:
		refuse(w, http.StatusGone, metav1.StatusReasonExpired)
	case q.Get("watch") != "":
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		w.(http.Flusher).Flush()
		expired := s.expired
		if g.revision != s.generations[0].revision {
			expired = nil
		}
		select {
		case <-r.Context().Done():
		case <-expired:
		}
	case q.Get("resourceVersion") == "0" || q.Get("limit") == "":
		s.send(w, g.whole[0])
	default:
		page, _ := strconv.Atoi(q.Get("continue"))
		s.send(w, g.pages[page])
	}
}

func (s *server) send(w http.ResponseWriter, part section) {
	w.Header().Set("Content-Length", strconv.FormatInt(part.size, 10))
	_, _ = io.Copy(w, io.NewSectionReader(s.file, part.offset, part.size)) // the client may have gone
}

func refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	data, err := encode("Status", &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason})
	if err != nil {
		panic(err) // the status is constant
	}
	w.WriteHeader(int(code))
	_, _ = w.Write(data)
}
