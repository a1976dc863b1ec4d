//go:build linux

package overlay

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/userdata"
	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// guardKeeper keeps the guard in the kernel. One goroutine uses it.
type guardKeeper struct {
	// kept is the guard that the table had at generation; nil if that is not known.
	kept       *guard
	generation uint32
}

// keep makes the kernel's table like g. With only, it makes the table only if there is none: the guard
// of an earlier run knows members that this one does not know yet. It must be called in the namespace.
func (k *guardKeeper) keep(g *guard, only bool) error {
	generation, err := nftGeneration()
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if k.kept != nil && k.generation == generation && (only || k.kept.equal(g)) {
		return nil
	}
	k.kept = nil
	have, err := g.inKernel()
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	if have == same || only && have == other {
		if have == same {
			k.kept, k.generation = g, generation
		}
		return nil
	}
	if err := g.write(); err != nil {
		return fmt.Errorf("guard: write nftables table %s: %w", g.table, err)
	}
	return nil // and the next call compares
}

func (g *guard) equal(h *guard) bool {
	return g.table == h.table &&
		slices.EqualFunc(g.sets, h.sets, func(a, b guardSet) bool {
			return a.name == b.name && slices.Equal(a.fields, b.fields) && slices.Equal(a.elements, b.elements)
		}) &&
		slices.EqualFunc(g.chains, h.chains, func(a, b guardChain) bool {
			return a.name == b.name && slices.EqualFunc(a.rules, b.rules, func(a, b guardRule) bool { return a.text == b.text })
		})
}

func compareElements(a, b guardElement) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.end, b.end))
}

const (
	// guardBuffer is room for a batch and its acknowledgements, in bytes.
	guardBuffer = 32 << 20
	// guardPatience bounds a batch: the kernel answers at once, or never if it has no nftables.
	guardPatience = 30 * time.Second
	// elementsPerMessage bounds a message: 64 KiB of elements with at most 120 bytes.
	elementsPerMessage = 200
)

func nft() *nftables.Conn {
	deadline := time.Now().Add(guardPatience)
	c, err := nftables.New(nftables.WithSockOptions(func(s *mdlayher.Conn) error {
		return errors.Join(s.SetReadBuffer(guardBuffer), s.SetWriteBuffer(guardBuffer), s.SetDeadline(deadline))
	}))
	if err != nil { // only a lasting connection is opened by New
		panic(err)
	}
	return c
}

// nftGeneration returns a number that every change of any table in the namespace increases.
func nftGeneration() (uint32, error) {
	c, err := mdlayher.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, fmt.Errorf("nftables: %w", err)
	}
	defer c.Close()
	out, err := c.Execute(mdlayher.Message{
		Header: mdlayher.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: mdlayher.Request},
		Data:   make([]byte, 4), // struct nfgenmsg
	})
	if err != nil {
		return 0, fmt.Errorf("read the generation of nftables: %w", err)
	}
	for _, m := range out {
		attributes, err := mdlayher.UnmarshalAttributes(m.Data[min(4, len(m.Data)):])
		if err != nil {
			return 0, fmt.Errorf("read the generation of nftables: %w", err)
		}
		for _, a := range attributes {
			if a.Type == unix.NFTA_GEN_ID && len(a.Data) == 4 {
				return binary.BigEndian.Uint32(a.Data), nil
			}
		}
	}
	return 0, errors.New("nftables has no generation")
}

func (g *guard) nftTable() *nftables.Table {
	return &nftables.Table{Name: g.table, Family: nftables.TableFamilyINet}
}

// write replaces the table in one transaction.
func (g *guard) write() error {
	c, table := nft(), g.nftTable()
	c.AddTable(table) // there is one to delete now
	c.DelTable(table)
	c.AddTable(table)
	for i, s := range g.sets {
		set := s.encode(table, uint32(i+1))
		if err := c.AddSet(set, nil); err != nil {
			return err
		}
		for part := range slices.Chunk(s.encodeElements(), elementsPerMessage) {
			if err := c.SetAddElements(set, part); err != nil {
				return err
			}
		}
	}
	for _, chain := range g.chains {
		at := &nftables.Chain{Name: chain.name, Table: table}
		if chain.hook != nil {
			at.Type, at.Hooknum, at.Priority = nftables.ChainTypeFilter, chain.hook, chain.order
		}
		c.AddChain(at)
		for _, r := range chain.rules {
			comment := userdata.Append(nil, userdata.TypeComment, append([]byte(r.text), 0))
			c.AddRule(&nftables.Rule{Table: table, Chain: at, Exprs: r.code, UserData: comment})
		}
	}
	return c.Flush()
}

func (s guardSet) encode(table *nftables.Table, id uint32) *nftables.Set {
	var types []nftables.SetDatatype
	for _, size := range s.fields {
		kind := nftables.TypeIPAddr
		if size == 16 {
			kind = nftables.TypeIP6Addr
		}
		types = append(types, kind)
	}
	set := &nftables.Set{Table: table, ID: id, Name: s.name, KeyType: types[0], KeyByteOrder: binaryutil.BigEndian, Interval: s.ranges}
	if len(types) > 1 {
		set.KeyType, set.Concatenation = nftables.MustConcatSetType(types...), true
	}
	return set
}

func (s guardSet) encodeElements() []nftables.SetElement {
	var all []nftables.SetElement
	for _, e := range s.elements {
		switch {
		case !s.ranges:
			all = append(all, nftables.SetElement{Key: []byte(e.key)})
		case len(s.fields) == 1:
			all = append(all, nftables.SetElement{Key: []byte(e.key)}, nftables.SetElement{Key: []byte(e.end), IntervalEnd: true})
		default:
			all = append(all, nftables.SetElement{Key: []byte(e.key), KeyEnd: []byte(e.end)})
		}
	}
	return all
}

// comparison is the result of comparing a guard with the kernel's table.
type comparison int

const (
	missing comparison = iota
	other
	same
)

// inKernel compares the guard with the kernel's table.
func (g *guard) inKernel() (comparison, error) {
	tables, err := dump(func() ([]*nftables.Table, error) { return nft().ListTablesOfFamily(nftables.TableFamilyINet) })
	if err != nil {
		return missing, fmt.Errorf("list nftables tables: %w", err)
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == g.table }) {
		return missing, nil
	}
	table := g.nftTable()
	for _, chain := range g.chains {
		rules, err := dump(func() ([]*nftables.Rule, error) { return nft().GetRules(table, &nftables.Chain{Name: chain.name}) })
		if errors.Is(err, unix.ENOENT) {
			return other, nil
		}
		if err != nil {
			return missing, fmt.Errorf("read chain %s: %w", chain.name, err)
		}
		alike := func(have *nftables.Rule, want guardRule) bool {
			comment, _ := userdata.GetString(have.UserData, userdata.TypeComment)
			return comment == want.text
		}
		if !slices.EqualFunc(rules, chain.rules, alike) {
			return other, nil
		}
	}
	for i, s := range g.sets {
		have, err := dump(func() ([]nftables.SetElement, error) { return nft().GetSetElements(s.encode(table, uint32(i+1))) })
		if errors.Is(err, unix.ENOENT) {
			return other, nil
		}
		if err != nil {
			return missing, fmt.Errorf("read set %s: %w", s.name, err)
		}
		if !sameElements(have, s.encodeElements()) {
			return other, nil
		}
	}
	return same, nil
}

// sameElements compares elements in any order.
func sameElements(have, want []nftables.SetElement) bool {
	if len(have) != len(want) {
		return false
	}
	type element struct {
		guardElement
		after bool
	}
	all := make(map[element]bool, len(want))
	for _, e := range want {
		all[element{guardElement{string(e.Key), string(e.KeyEnd)}, e.IntervalEnd}] = true
	}
	for _, e := range have {
		if !all[element{guardElement{string(e.Key), string(e.KeyEnd)}, e.IntervalEnd}] {
			return false
		}
	}
	return true
}

// removeGuard removes the table, if there is one. It must be called in the namespace.
func (c *Config) removeGuard() error {
	table := &nftables.Table{Name: c.guardTable(), Family: nftables.TableFamilyINet}
	batch := nft()
	batch.AddTable(table) // there is one to delete now
	batch.DelTable(table)
	if err := batch.Flush(); err != nil {
		return fmt.Errorf("delete nftables table %s: %w", table.Name, err)
	}
	return nil
}
