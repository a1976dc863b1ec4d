package ruleset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// buffer is room for a batch and its acknowledgements, in bytes.
	buffer = 32 << 20
	// patience bounds a batch whose context has no deadline.
	patience = 30 * time.Second
	// batchSteps bounds the steps of a transaction. A step is one to five messages. Only
	// filling or repairing a large table takes more than one transaction.
	batchSteps = 4000
)

// Kernel is a table of family inet or bridge in the network namespace of the thread that calls its methods. It
// is not safe for concurrent use.
type Kernel struct {
	table *nftables.Table
	owner string
	// retired are chains that are empty and unused. They are deleted later: kernels before 6.2 refuse
	// it in the transaction that removes the last element that leads to a chain.
	retired map[string]bool
}

// NewKernel returns the table with a name. The owner is written into it; see [ErrOwned].
func NewKernel(name, owner string) (*Kernel, error) {
	if name == "" || len(name) > 200 || owner == "" || len(owner) > 200 {
		return nil, fmt.Errorf("table %q of owner %q: names have 1 to 200 bytes", name, owner)
	}
	return &Kernel{table: &nftables.Table{Name: name, Family: nftables.TableFamilyINet}, owner: owner, retired: map[string]bool{}}, nil
}

// NewBridgeKernel is NewKernel for a table of family bridge, whose rules see the frames between the ports of bridges.
func NewBridgeKernel(name, owner string) (*Kernel, error) {
	k, err := NewKernel(name, owner)
	if err == nil {
		k.table.Family = nftables.TableFamilyBridge
	}
	return k, err
}

func connect(ctx context.Context) *nftables.Conn {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(patience)
	}
	c, err := nftables.New(nftables.WithSockOptions(func(s *mdlayher.Conn) error {
		return errors.Join(s.SetReadBuffer(buffer), s.SetWriteBuffer(buffer), s.SetDeadline(deadline))
	}))
	if err != nil { // only a lasting connection is opened by New
		panic(err)
	}
	return c
}

// step is a part of a transaction that must not be divided.
type step func(e *encoder) error

// Apply writes a change, in one transaction unless it is very large, and returns in how many. After an
// error the state of the table is that before, or, after a large change, that between two steps.
func (k *Kernel) Apply(ctx context.Context, c *Change) (transactions uint32, err error) {
	return k.run(ctx, append([]step{k.begin}, k.steps(c)...))
}

// Rebuild replaces the whole table. Connections that exist go on: the kernel has their translation.
func (k *Kernel) Rebuild(ctx context.Context, want Table) error {
	again := func(e *encoder) error {
		e.batch.AddTable(k.table) // so that there is one to delete
		e.batch.DelTable(k.table)
		return k.begin(e)
	}
	clear(k.retired)
	_, err := k.run(ctx, append([]step{again}, k.steps(Diff(Table{}, want))...))
	return err
}

// Delete removes the table.
func (k *Kernel) Delete(ctx context.Context) error {
	_, err := k.run(ctx, []step{func(e *encoder) error {
		e.batch.AddTable(k.table)
		e.batch.DelTable(k.table)
		return nil
	}})
	return err
}

func (k *Kernel) run(ctx context.Context, steps []step) (transactions uint32, err error) {
	for len(steps) > 0 {
		n := min(len(steps), batchSteps)
		e := &encoder{batch: connect(ctx), table: k.table}
		for _, step := range steps[:n] {
			if err := step(e); err != nil {
				return transactions, fmt.Errorf("nftables table %s: %w", k.table.Name, err)
			}
		}
		if err := e.batch.Flush(); err != nil {
			return transactions, fmt.Errorf("write nftables table %s: %w", k.table.Name, batchError{err})
		}
		transactions++
		steps = steps[n:]
	}
	return transactions, nil
}

// batchError is the errors of a batch: one for each message that the kernel refused, mostly for one reason.
type batchError struct{ error }

func (e batchError) Unwrap() error { return e.error }

// Error returns the first, and how many others there are.
func (e batchError) Error() string {
	first, others, _ := strings.Cut(e.error.Error(), "\n")
	if others == "" {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, 1+strings.Count(others, "\n"))
}

// begin makes the table with the mark of its owner.
func (k *Kernel) begin(e *encoder) error {
	e.batch.AddTable(k.table)
	e.batch.AddChain(&nftables.Chain{Name: ownerPrefix + k.owner, Table: k.table})
	return nil
}

// ownerPrefix begins the name of an empty chain, and is followed by the owner of the table.
const ownerPrefix = "owner/"

// steps returns what a change does, in an order in which each step finds what it needs. Endpoints are
// after the rules that choose from them, because the kernel walks the map of a new rule.
func (k *Kernel) steps(c *Change) []step {
	var steps []step
	chains := slices.SortedFunc(maps.Keys(c.chains), strings.Compare)
	sets := slices.SortedFunc(maps.Keys(c.sets), strings.Compare)
	for _, name := range sets {
		if after := c.sets[name].after; after != nil {
			steps = append(steps, func(e *encoder) error { return e.addSet(name, *after) })
		}
	}
	for _, name := range chains {
		if edit := c.chains[name]; edit.after != nil && edit.before == nil {
			steps = append(steps, func(e *encoder) error { return k.addChain(e, name, edit.after.Hook) })
		}
	}
	for _, name := range chains {
		if edit := c.chains[name]; edit.after != nil {
			steps = append(steps, func(e *encoder) error { return e.write(name, edit.after.Rules) })
		}
	}
	endpoints, others := elementSteps(c)
	steps = append(append(steps, endpoints...), others...)
	for _, name := range chains {
		if edit := c.chains[name]; edit.after == nil {
			steps = append(steps, func(e *encoder) error { return k.retire(e, name) })
		}
	}
	for _, name := range sets {
		if c.sets[name].after == nil {
			steps = append(steps, func(e *encoder) error {
				e.batch.DelSet(&nftables.Set{Table: k.table, Name: name})
				return nil
			})
		}
	}
	return steps
}

func (k *Kernel) addChain(e *encoder, name string, h *Hook) error {
	delete(k.retired, name)
	chain := &nftables.Chain{Name: name, Table: k.table}
	if h != nil {
		point, ok := hooks[h.Point]
		if !ok {
			return fmt.Errorf("chain %s: hook %q is unknown", name, h.Point)
		}
		chain.Type, chain.Hooknum = nftables.ChainTypeFilter, point
		if h.Translates {
			chain.Type = nftables.ChainTypeNAT
		}
		chain.Priority = nftables.ChainPriorityRef(nftables.ChainPriority(h.Priority))
	}
	e.batch.AddChain(chain)
	return nil
}

var hooks = map[string]*nftables.ChainHook{
	"prerouting": nftables.ChainHookPrerouting, "input": nftables.ChainHookInput, "forward": nftables.ChainHookForward,
	"output": nftables.ChainHookOutput, "postrouting": nftables.ChainHookPostrouting,
}

// retire empties a chain, which nothing refers to when the transaction ends.
func (k *Kernel) retire(e *encoder, name string) error {
	e.batch.FlushChain(&nftables.Chain{Name: name, Table: k.table})
	k.retired[name] = true
	return nil
}

// Sweep deletes chains that are no longer used, and returns in how many transactions. One that is still
// in use stays for the next time.
func (k *Kernel) Sweep(ctx context.Context) (transactions uint32, err error) {
	for _, name := range slices.Sorted(maps.Keys(k.retired)) {
		_, err := k.run(ctx, []step{func(e *encoder) error {
			e.batch.DelChain(&nftables.Chain{Name: name, Table: k.table})
			return nil
		}})
		switch {
		case err == nil:
			transactions++
			delete(k.retired, name)
		case errors.Is(err, unix.ENOENT):
			delete(k.retired, name)
		case !errors.Is(err, unix.EBUSY):
			return transactions, err
		}
	}
	return transactions, nil
}

// write replaces the rules of a chain.
func (e *encoder) write(name string, rules []Rule) error {
	chain := &nftables.Chain{Name: name, Table: e.table}
	e.batch.FlushChain(chain)
	for _, r := range rules {
		code, err := e.rule(r)
		if err != nil {
			return err
		}
		comment := userdata.Append(nil, userdata.TypeComment, append([]byte(r.id), 0))
		e.batch.AddRule(&nftables.Rule{Table: e.table, Chain: chain, Exprs: code, UserData: comment})
	}
	return nil
}

func (e *encoder) addSet(name string, s Set) error {
	e.nextSet++
	set := s.encode(e.table, name)
	set.ID = e.nextSet
	return e.batch.AddSet(set, nil)
}

// affinityClients bounds how many clients of a service port are remembered. Further ones are served
// without affinity.
const affinityClients = 1 << 16

// connectionSources bounds the sources whose connections are counted. Those of further ones are not.
const connectionSources = 1 << 16

func (s Set) encode(table *nftables.Table, name string) *nftables.Set {
	var types []nftables.SetDatatype
	for _, field := range s.Fields {
		switch field {
		case SourceAddr, DestAddr:
			types = append(types, s.Family.addressType())
		case ProtocolNumber:
			types = append(types, nftables.TypeInetProto)
		case DestPort, ServerPort:
			types = append(types, nftables.TypeInetService)
		case InLink:
			types = append(types, nftables.TypeIFName)
		case GroupID:
			types = append(types, nftables.TypeMark, nftables.TypeMark) // nft cannot list integers without a size
		case Number:
			types = append(types, nftables.TypeMark)
		}
	}
	set := &nftables.Set{Table: table, Name: name, KeyByteOrder: binaryutil.BigEndian, KeyType: types[0], Interval: s.Ranges}
	if types[0] == nftables.TypeIFName {
		set.KeyByteOrder = binaryutil.NativeEndian // as nft lists it
	}
	if len(types) > 1 {
		set.KeyType, set.Concatenation = nftables.MustConcatSetType(types...), true
	}
	switch s.Kind {
	case Verdicts:
		set.IsMap, set.DataType = true, nftables.TypeVerdict
	case Endpoints:
		set.IsMap, set.DataType = true, s.Family.endpointType()
	case Affinity:
		set.IsMap, set.DataType, set.HasTimeout, set.Dynamic, set.Size = true, s.Family.endpointType(), true, true, affinityClients
	case Connections:
		set.Dynamic, set.Size = true, connectionSources
	}
	return set
}

// elementSteps removes and adds elements, endpoints apart from what leads to them. What replaces the value of an
// element is one step.
func elementSteps(c *Change) (endpoints, others []step) {
	first, last := map[string][]Place{}, map[string][]Place{}
	for place, edit := range c.elements {
		bySet := last
		for _, v := range []*Verdict{edit.before, edit.after} {
			if v == nil {
				continue
			}
			if _, ok := v.endpoint(); ok {
				bySet = first
			}
		}
		bySet[place.Set] = append(bySet[place.Set], place)
	}
	return c.stepsOf(first), c.stepsOf(last)
}

func (c *Change) stepsOf(bySet map[string][]Place) []step {
	var steps []step
	for _, name := range slices.Sorted(maps.Keys(bySet)) {
		places := bySet[name]
		slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Key, b.Key) })
		for len(places) > 0 {
			n := min(len(places), elementsPerMessage)
			part := places[:n]
			places = places[n:]
			steps = append(steps, func(e *encoder) error { return e.elements(c, name, part) })
		}
	}
	return steps
}

func (e *encoder) elements(c *Change, name string, places []Place) error {
	set := &nftables.Set{Table: e.table, Name: name}
	var remove, add []nftables.SetElement
	for _, place := range places {
		edit := c.elements[place]
		key, after := place.Key.bound()
		if edit.before != nil {
			remove = append(remove, nftables.SetElement{Key: key, IntervalEnd: after})
		}
		if edit.after != nil {
			element := nftables.SetElement{Key: key, IntervalEnd: after, VerdictData: verdict(*edit.after)}
			if endpoint, ok := edit.after.endpoint(); ok {
				element.Val = endpointData(endpoint)
			}
			add = append(add, element)
		}
	}
	if len(remove) > 0 {
		if err := e.batch.SetDeleteElements(set, remove); err != nil {
			return err
		}
	}
	if len(add) > 0 {
		return e.batch.SetAddElements(set, add)
	}
	return nil
}

func verdict(v Verdict) *expr.Verdict {
	if chain, ok := strings.CutPrefix(string(v), "goto "); ok {
		return &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}
	}
	if chain, ok := strings.CutPrefix(string(v), "jump "); ok {
		return &expr.Verdict{Kind: expr.VerdictJump, Chain: chain}
	}
	if v == VerdictDrop {
		return &expr.Verdict{Kind: expr.VerdictDrop}
	}
	return nil
}

// Lock makes sure that no other process keeps the table, until the result is closed or this process
// ends. It returns an error that is ErrOwned if one does.
func (k *Kernel) Lock() (io.Closer, error) {
	// The names of abstract sockets belong to a network namespace, as tables do.
	l, err := net.Listen("unix", "@planekit/nftables/"+k.table.Name)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("another process keeps table %s: %w", k.table.Name, ErrOwned)
	}
	if err != nil {
		return nil, fmt.Errorf("lock table %s: %w", k.table.Name, err)
	}
	return l, nil
}
