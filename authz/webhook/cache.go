package webhook

import (
	"container/list"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// Limits of kube-apiserver.
const (
	mostAnswers = 8192
	mostBytes   = 10_000 // in the fields that a client can choose freely
)

// cache is an LRU cache of answers. Questions are found by hash and then compared; of two with the
// same hash, the later one replaces the earlier.
type cache struct {
	answers map[uint64]*list.Element
	order   *list.List // of *entry, most recently used first
}

type entry struct {
	key    uint64
	of     authz.Attributes
	answer answer
	until  time.Time
}

func newCache() cache {
	return cache{answers: map[uint64]*list.Element{}, order: list.New()}
}

func (c *cache) get(key uint64, at *authz.Attributes) (answer, bool) {
	element, ok := c.answers[key]
	if !ok {
		return answer{}, false
	}
	e := element.Value.(*entry)
	if !time.Now().Before(e.until) {
		c.drop(element)
		return answer{}, false
	}
	if !same(&e.of, at) {
		return answer{}, false
	}
	c.order.MoveToFront(element)
	return e.answer, true
}

func (c *cache) put(key uint64, of authz.Attributes, a answer, ttl time.Duration) {
	if element, ok := c.answers[key]; ok {
		c.drop(element)
	}
	c.answers[key] = c.order.PushFront(&entry{key, of, a, time.Now().Add(ttl)})
	if c.order.Len() > mostAnswers {
		c.drop(c.order.Back())
	}
}

func (c *cache) drop(element *list.Element) {
	delete(c.answers, element.Value.(*entry).key)
	c.order.Remove(element)
}

// own returns at with a deep copy of the user and the requirements.
func own(at authz.Attributes) authz.Attributes {
	at.Fields, at.Labels = ownRequirements(at.Fields), ownRequirements(at.Labels)
	if at.User == nil {
		return at
	}
	u := *at.User
	u.Groups = slices.Clone(u.Groups)
	u.Extra = maps.Clone(u.Extra)
	for key, values := range u.Extra {
		u.Extra[key] = slices.Clone(values)
	}
	at.User = &u
	return at
}

func ownRequirements(all []authz.Requirement) []authz.Requirement {
	all = slices.Clone(all)
	for i := range all {
		all[i].Values = slices.Clone(all[i].Values)
	}
	return all
}

// same reports whether the service would get the same question. Groups in a different order make a
// different question, which only costs another call.
func same(a, b *authz.Attributes) bool {
	return a.Verb == b.Verb && a.Group == b.Group && a.Version == b.Version && a.Resource == b.Resource &&
		a.Subresource == b.Subresource && a.Namespace == b.Namespace && a.Name == b.Name && a.Path == b.Path &&
		slices.EqualFunc(a.Fields, b.Fields, sameRequirement) && slices.EqualFunc(a.Labels, b.Labels, sameRequirement) &&
		sameUser(a.User, b.User)
}

func sameRequirement(a, b authz.Requirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
}

func sameUser(a, b *user.Info) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.UID == b.UID && slices.Equal(a.Groups, b.Groups) &&
		maps.EqualFunc(a.Extra, b.Extra, slices.Equal[[]string])
}

func size(at *authz.Attributes) int {
	n := len(at.Verb) + len(at.Group) + len(at.Version) + len(at.Resource) +
		len(at.Subresource) + len(at.Namespace) + len(at.Name) + len(at.Path)
	for _, all := range [...][]authz.Requirement{at.Fields, at.Labels} {
		for _, r := range all {
			n += len(r.Key) + len(r.Operator)
			for _, value := range r.Values {
				n += len(value)
			}
		}
	}
	return n
}

func hash(seed maphash.Seed, at *authz.Attributes) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, s := range [...]string{at.Verb, at.Group, at.Version, at.Resource, at.Subresource, at.Namespace, at.Name, at.Path} {
		write(&h, s)
	}
	for _, all := range [...][]authz.Requirement{at.Fields, at.Labels} {
		for _, r := range all {
			write(&h, r.Key)
			write(&h, string(r.Operator))
			for _, value := range r.Values {
				write(&h, value)
			}
		}
		write(&h, "")
	}
	u := at.User
	if u == nil {
		return h.Sum64()
	}
	write(&h, u.Name)
	write(&h, u.UID)
	for _, group := range u.Groups {
		write(&h, group)
	}
	var sum uint64 // of the hashes of the pairs, whose order is not defined
	for key, values := range u.Extra {
		var pair maphash.Hash
		pair.SetSeed(seed)
		write(&pair, key)
		for _, value := range values {
			write(&pair, value)
		}
		sum += pair.Sum64()
	}
	var extra [8]byte
	binary.LittleEndian.PutUint64(extra[:], sum)
	h.Write(extra[:])
	return h.Sum64()
}

// write hashes s and a terminator that cannot occur in UTF-8.
func write(h *maphash.Hash, s string) {
	h.WriteString(s)
	h.WriteByte(0xff)
}
