//go:build linux

package portmap

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// buffer is room for a batch of maxMappings and its acknowledgements, in bytes.
	buffer = 32 << 20
	// patience bounds a batch whose context has no deadline: the kernel answers at once, or never to
	// a batch for a subsystem that it lacks.
	patience = 30 * time.Second
)

// connect returns a connection for one batch.
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

func inet(name string) *nftables.Table {
	return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
}

// hooks are the chains that the kernel calls. That of localnet is by its prefix.
var hooks = []struct {
	chain    string
	typ      nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
}{
	{prerouting, nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest},
	{output, nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest},
	{postrouting, nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource},
	{localnet, nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter},
}

// chains returns the names of a table's chains, each before those that jump to it.
func (t table) chains() []string {
	all := []string{mappings, prerouting, output, postrouting}
	if t.localnet != "" {
		all = append(all, localnet+t.localnet)
	}
	return all
}

// install replaces the table of an attachment in one transaction. No other process installs it at the
// same time.
func install(ctx context.Context, t table) error {
	c, in := connect(ctx), inet(t.name)
	there, err := exists(t.name)
	if err != nil {
		return err
	}
	if there {
		c.DelTable(in)
	}
	c.AddTable(in)
	chains := map[string]*nftables.Chain{}
	for _, name := range t.chains() {
		chain := &nftables.Chain{Name: name, Table: in}
		for _, h := range hooks {
			if h.chain == name || h.chain == localnet && strings.HasPrefix(name, localnet) {
				chain.Type, chain.Hooknum, chain.Priority = h.typ, h.hook, h.priority
			}
		}
		chains[name] = c.AddChain(chain)
	}
	for _, r := range t.rules {
		var code []expr.Any
		for _, p := range r.parts {
			code = append(code, p.code...)
		}
		c.AddRule(&nftables.Rule{Table: in, Chain: chains[r.chain], Exprs: code, UserData: r.comment()})
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("add nftables table %s: %w", t.name, err)
	}
	return nil
}

// maxComment bounds a comment, in bytes: nft shows no longer ones.
const maxComment = 120

// comment identifies a rule completely, so that rules can be compared without decoding them.
func (r rule) comment() []byte {
	text := r.text()
	if len(text) > maxComment {
		sum := sha256.Sum256([]byte(text))
		text = text[:maxComment-33] + " " + hex.EncodeToString(sum[:16])
	}
	return userdata.Append(nil, userdata.TypeComment, append([]byte(text), 0))
}

// uninstall removes the tables with certain names in one transaction. Before, it turns route_localnet
// off on the interfaces for which no other table guards it.
func uninstall(ctx context.Context, matches func(name string) bool) error {
	all, err := listChains()
	if errors.Is(err, errNoTables) {
		return nil
	}
	if err != nil {
		return err
	}
	c := connect(ctx)
	gone, guarded := map[string]bool{}, map[string]bool{}
	for _, chain := range all {
		if scopeOf(chain.table) == "" {
			continue
		}
		link, guards := strings.CutPrefix(chain.name, localnet)
		switch {
		case !matches(chain.table):
			if guards {
				guarded[link] = true
			}
		case !gone[chain.table]:
			gone[chain.table] = true
			c.DelTable(inet(chain.table))
		}
	}
	for _, chain := range all {
		if link, guards := strings.CutPrefix(chain.name, localnet); guards && gone[chain.table] && !guarded[link] {
			if err := forbidLocalnet(link); err != nil {
				return err
			}
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("delete nftables tables: %w", err)
	}
	return nil
}

func scopes() ([]string, error) {
	all, err := listChains()
	if err != nil && !errors.Is(err, errNoTables) {
		return nil, err
	}
	var found []string
	for _, chain := range all {
		if scope := scopeOf(chain.table); scope != "" {
			found = append(found, scope)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// compare reports how the kernel's table differs from t.
func compare(ctx context.Context, t table) error {
	there, err := exists(t.name)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("nftables table %s is lost", t.name)
	}
	c := connect(ctx)
	for _, name := range t.chains() {
		have, err := c.GetRules(inet(t.name), &nftables.Chain{Name: name})
		if err != nil {
			return fmt.Errorf("nftables table %s: %w", t.name, err)
		}
		want := slices.DeleteFunc(slices.Clone(t.rules), func(r rule) bool { return r.chain != name })
		same := slices.EqualFunc(have, want, func(h *nftables.Rule, w rule) bool { return bytes.Equal(h.UserData, w.comment()) })
		if !same {
			return fmt.Errorf("nftables table %s has other rules in %s", t.name, name)
		}
	}
	return checkLocalnet(t.localnet)
}

// errNoTables means that the kernel has no nftables. Then there are no tables to remove.
var errNoTables = errors.New("the kernel has no nftables")

// request asks the kernel about tables of family inet.
func request(message, flags int, attributes ...nl.NetlinkRequestData) ([][]byte, error) {
	r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, flags)
	r.AddData(&nl.Nfgenmsg{NfgenFamily: unix.NFPROTO_INET, Version: nl.NFNETLINK_V0})
	for _, a := range attributes {
		r.AddData(a)
	}
	out, err := r.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, fmt.Errorf("%w: %w", errNoTables, err)
	}
	return out, err
}

// exists reports whether there is a table.
func exists(name string) (bool, error) {
	_, err := request(unix.NFT_MSG_GETTABLE, 0, nl.NewRtAttr(unix.NFTA_TABLE_NAME, nl.ZeroTerminated(name)))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, errNoTables) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("nftables table %s: %w", name, err)
	}
	return true, nil
}

// dumpAttempts bounds the repetitions of a listing that the kernel reports as inconsistent: other
// programs on the host change their tables.
const dumpAttempts = 50

// chain is a chain of any table of family inet.
type chain struct{ table, name string }

func listChains() ([]chain, error) {
	for attempt := 1; ; attempt++ {
		messages, err := request(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP)
		if errors.Is(err, netlink.ErrDumpInterrupted) && attempt < dumpAttempts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list nftables chains: %w", err)
		}
		var all []chain
		for _, m := range messages {
			c, err := parseChain(m)
			if err != nil {
				return nil, err
			}
			all = append(all, c)
		}
		return all, nil
	}
}

// parseChain reads a message of type NFT_MSG_NEWCHAIN.
func parseChain(message []byte) (chain, error) {
	if len(message) < nl.SizeofNfgenmsg {
		return chain{}, fmt.Errorf("list nftables chains: a message of %d bytes", len(message))
	}
	attributes, err := mdlayher.NewAttributeDecoder(message[nl.SizeofNfgenmsg:])
	if err != nil {
		return chain{}, fmt.Errorf("list nftables chains: %w", err)
	}
	var c chain
	for attributes.Next() {
		switch attributes.Type() {
		case unix.NFTA_CHAIN_TABLE:
			c.table = strings.TrimRight(attributes.String(), "\x00")
		case unix.NFTA_CHAIN_NAME:
			c.name = strings.TrimRight(attributes.String(), "\x00")
		}
	}
	return c, attributes.Err()
}
