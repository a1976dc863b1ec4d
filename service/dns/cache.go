package dns

import (
	"container/list"
	"encoding/binary"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// cacheKey identifies a question to upstreams.
type cacheKey struct {
	name     string // in lower case
	kind     uint16
	dnssec   bool // the client asked for signatures
	checking bool // the client checks them itself
}

// remembered is an answer of an upstream as it goes over the wire, without OPT record. It is immutable.
type remembered struct {
	key    cacheKey
	packet []byte
	// ttls are the offsets of the TTLs in packet.
	ttls          []int
	rcode         int
	denial        bool
	stored, until time.Time
	// next is the name to go on with, if the answer ends with a CNAME record.
	next string
}

// overhead is about what a remembered answer takes beside its packet and its name, in bytes.
const overhead = 512

func (r *remembered) size() int { return cap(r.packet) + len(r.key.name) + 8*cap(r.ttls) + overhead }

// cache remembers answers, those that were used last if it is full. It is safe for concurrent use.
type cache struct {
	max    int // bytes
	meters Meters

	mu sync.Mutex
	// The fields below are guarded by mu.
	entries map[cacheKey]*list.Element
	order   *list.List // of *remembered, the last used one first
	size    int        // bytes
	denials int
}

func newCache(most int, m Meters) *cache {
	return &cache{max: most, meters: m, entries: map[cacheKey]*list.Element{}, order: list.New()}
}

// get returns the answer to a question, unless it is too old.
func (c *cache) get(k cacheKey, now time.Time) *remembered {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		return nil
	}
	r := e.Value.(*remembered)
	if !now.Before(r.until) {
		c.remove(e)
		return nil
	}
	c.order.MoveToFront(e)
	return r
}

// put stores an answer.
func (c *cache) put(r *remembered) {
	if r.size() > c.max || !r.stored.Before(r.until) {
		return
	}
	c.mu.Lock()
	if e := c.entries[r.key]; e != nil {
		c.remove(e)
	}
	c.entries[r.key] = c.order.PushFront(r)
	c.size += r.size()
	if r.denial {
		c.denials++
	}
	evicted := 0
	for c.size > c.max {
		c.remove(c.order.Back())
		evicted++
	}
	successes, denials := len(c.entries)-c.denials, c.denials
	c.mu.Unlock()
	c.meters.stored(successes, denials, evicted)
}

func (c *cache) remove(e *list.Element) {
	r := c.order.Remove(e).(*remembered)
	delete(c.entries, r.key)
	c.size -= r.size()
	if r.denial {
		c.denials--
	}
}

// ttlOffsets returns the offsets of the TTLs of all records of a packet.
func ttlOffsets(packet []byte) ([]int, error) {
	offset, records := 12, 0
	for i := range 4 {
		count := int(binary.BigEndian.Uint16(packet[4+2*i:]))
		if i > 0 {
			records += count
			continue
		}
		for range count {
			_, after, err := dns.UnpackDomainName(packet, offset)
			if err != nil {
				return nil, err
			}
			offset = after + 4
		}
	}
	var all []int
	for range records {
		_, after, err := dns.UnpackDomainName(packet, offset)
		if err != nil {
			return nil, err
		}
		if after+10 > len(packet) {
			return nil, dns.ErrBuf
		}
		all = append(all, after+4)
		offset = after + 10 + int(binary.BigEndian.Uint16(packet[after+8:]))
	}
	return all, nil
}

// aged returns a copy of the packet with the TTLs of now, and room for an OPT record.
func (r *remembered) aged(now time.Time) []byte {
	packet := make([]byte, len(r.packet), len(r.packet)+optLength)
	copy(packet, r.packet)
	age := uint32(max(0, now.Sub(r.stored)/time.Second))
	for _, o := range r.ttls {
		ttl := binary.BigEndian.Uint32(packet[o:])
		binary.BigEndian.PutUint32(packet[o:], ttl-min(ttl, age))
	}
	return packet
}

// result returns the answer of now in records.
func (r *remembered) result(now time.Time) (result, error) {
	var m dns.Msg
	if err := m.Unpack(r.aged(now)); err != nil {
		return result{}, err
	}
	return result{rcode: r.rcode, answer: m.Answer, authority: m.Ns, next: r.next}, nil
}
