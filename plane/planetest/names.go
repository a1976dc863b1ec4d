package planetest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/plane"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Names makes UIDs and generated names the same in each run with the same seed. They
// depend on the object's resource, namespace and name (or prefix), and on how often that
// was created before, but not on what other goroutines create at the same time.
func Names(seed uint64) Option {
	return With(func(c *plane.Config) {
		next := c.Configure
		c.Configure = func(p *plane.Plane, server *apiserver.Config) error {
			server.Identities = &identities{seed: seed, used: map[string]uint64{}}
			if next == nil {
				return nil
			}
			return next(p, server)
		}
	})
}

// identities derives what is otherwise random in new objects from a seed.
type identities struct {
	seed uint64
	mu   sync.Mutex
	used map[string]uint64 // how often each key was used; guarded by mu
}

// sum returns a hash of the seed, the key, and how often the key was used.
func (i *identities) sum(key ...string) [sha256.Size]byte {
	text := strings.Join(key, "/")
	i.mu.Lock()
	defer i.mu.Unlock()
	i.used[text]++
	data := binary.BigEndian.AppendUint64(nil, i.seed)
	data = binary.BigEndian.AppendUint64(data, i.used[text])
	return sha256.Sum256(append(data, text...))
}

// UID implements [apiserver.Identities].
func (i *identities) UID(resource schema.GroupResource, namespace, name string) types.UID {
	b := i.sum("uid", resource.String(), namespace, name)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80 // version 4, variant 1
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16]))
}

// Suffix implements [apiserver.Identities], with the characters that Kubernetes uses.
func (i *identities) Suffix(resource schema.GroupResource, namespace, prefix string) string {
	const letters, length = "bcdfghjklmnpqrstvwxz2456789", 5
	b := i.sum("suffix", resource.String(), namespace, prefix)
	text := make([]byte, length)
	for at := range text {
		text[at] = letters[int(b[at])%len(letters)]
	}
	return string(text)
}
