//go:build linux

package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	mdlayher "github.com/mdlayher/netlink"
	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
	"golang.org/x/sys/unix"
)

// spoofGuard is the nftables table of one attachment that drops what its container sends with another
// hardware address than its own or, if byAddress is set, with anything that is not its own: see chains.
//
// Its chain is at the host's end of the container's pair alone, so that it costs others nothing, and comes
// before the bridge learns addresses.
type spoofGuard struct {
	table *nftables.Table
	// port is the host's end of the container's pair.
	port      string
	mac       net.HardwareAddr
	byAddress bool
	addresses []netip.Addr
	// gateway is the hardware address of the gateway; nil if there is none.
	gateway net.HardwareAddr
}

// spoofPrefix begins the names of all tables of this kind, and is followed by the bridge.
const spoofPrefix = "planekit-macspoof/"

// spoofTable returns the table of an attachment. The separator is in no name, so that no two
// attachments have the same.
func spoofTable(bridge, network, containerID, ifName string) *nftables.Table {
	sum := sha256.Sum256([]byte(network + "\x00" + containerID + "\x00" + ifName))
	return &nftables.Table{Name: spoofTables(bridge) + hex.EncodeToString(sum[:16]), Family: nftables.TableFamilyNetdev}
}

// spoofTables returns the prefix of the names of a bridge's tables. The name of an interface may have
// any byte but '/'.
func spoofTables(bridge string) string { return spoofPrefix + bridge + "/" }

// guarded reports whether attachments have a guard.
func (c *Conf) guarded() bool { return c.MacSpoofChk || c.AddressSpoofChk }

// guard returns the guard of an attachment by its result.
func (c *Conf) guard(r *skel.Request, interfaces []cni.Interface, ips []cni.IP) (spoofGuard, error) {
	g := spoofGuard{table: spoofTable(c.Bridge, r.Name, r.ContainerID, r.IfName), byAddress: c.AddressSpoofChk}
	for _, i := range interfaces {
		mac, err := net.ParseMAC(i.Mac)
		if err != nil {
			return g, cni.Errorf(cni.CodeInvalidConfig, "interface %s: %v", i.Name, err)
		}
		switch {
		case i.Sandbox != "" && i.Name == r.IfName:
			g.mac = mac
		case i.Sandbox == "" && i.Name == c.gatewayLink():
			if c.IsGateway {
				g.gateway = mac
			}
		case i.Sandbox == "" && i.Name != c.Bridge:
			g.port = i.Name
		}
	}
	if g.port == "" || len(g.mac) != 6 {
		return g, cni.Errorf(cni.CodeInvalidConfig, "the result lacks the interfaces of %s", r.IfName)
	}
	for _, ip := range ips {
		g.addresses = append(g.addresses, ip.Address.Addr())
	}
	return g, nil
}

// spoofPatience bounds a batch: the kernel answers at once, or never if it has no nftables.
const spoofPatience = 30 * time.Second

func spoofConn(ctx context.Context) *nftables.Conn {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(spoofPatience)
	}
	c, err := nftables.New(nftables.WithSockOptions(func(s *mdlayher.Conn) error { return s.SetDeadline(deadline) }))
	if err != nil { // only a lasting connection is opened by New
		panic(err)
	}
	return c
}

// chain returns a chain of the table.
func (g spoofGuard) chain(name string) *nftables.Chain {
	c := &nftables.Chain{Name: name, Table: g.table}
	if name == ingress {
		c.Type, c.Device = nftables.ChainTypeFilter, g.port
		c.Hooknum, c.Priority = nftables.ChainHookIngress, nftables.ChainPriorityFilter
	}
	return c
}

// comment identifies a rule completely.
func (r spoofRule) comment() []byte {
	return userdata.Append(nil, userdata.TypeComment, append([]byte(r.text), 0))
}

// install makes the table in one transaction, and replaces the one that a killed ADD left.
func (g spoofGuard) install(ctx context.Context) error {
	// Deleting a table takes the kernel ten times as long as making one, also if there is none.
	c := spoofConn(ctx)
	c.CreateTable(g.table)
	err := g.fill(c)
	if errors.Is(err, unix.EEXIST) {
		c = spoofConn(ctx)
		c.DelTable(g.table)
		c.AddTable(g.table)
		err = g.fill(c)
	}
	if err != nil {
		return fmt.Errorf("guard of %s: add nftables table %s: %w", g.port, g.table.Name, err)
	}
	return nil
}

// fill adds the chains to the batch and writes it.
func (g spoofGuard) fill(c *nftables.Conn) error {
	for _, chain := range g.chains() {
		at := c.AddChain(g.chain(chain.name))
		for _, r := range chain.rules {
			c.AddRule(&nftables.Rule{Table: g.table, Chain: at, UserData: r.comment(), Exprs: r.code})
		}
	}
	return c.Flush()
}

// check reports whether the kernel still has the guard.
func (g spoofGuard) check(ctx context.Context) error {
	for _, chain := range g.chains() {
		rules, err := spoofConn(ctx).GetRules(g.table, &nftables.Chain{Name: chain.name})
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("guard of %s: %w", g.port, err)
		}
		alike := func(have *nftables.Rule, want spoofRule) bool { return bytes.Equal(have.UserData, want.comment()) }
		if !slices.EqualFunc(rules, chain.rules, alike) {
			return cni.Errorf(cni.CodePlugin, "guard of %s: a rule of chain %s is lost", g.port, chain.name)
		}
	}
	return nil
}

// removeGuards removes the tables with certain names. Without nftables in the kernel there are none. Those
// of family bridge are of earlier versions.
func removeGuards(ctx context.Context, matches func(name string) bool) error {
	return errors.Join(removeGuardsOf(ctx, nftables.TableFamilyNetdev, matches), removeGuardsOf(ctx, nftables.TableFamilyBridge, matches))
}

func removeGuardsOf(ctx context.Context, family nftables.TableFamily, matches func(name string) bool) error {
	tables, err := dump(func() ([]*nftables.Table, error) { return spoofConn(ctx).ListTablesOfFamily(family) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list nftables tables: %w", err)
	}
	var failed error
	for _, t := range tables {
		if !strings.HasPrefix(t.Name, spoofPrefix) || !matches(t.Name) {
			continue
		}
		c := spoofConn(ctx)
		c.DelTable(t)
		if err := c.Flush(); err != nil && !errors.Is(err, unix.ENOENT) {
			failed = errors.Join(failed, fmt.Errorf("delete nftables table %s: %w", t.Name, err))
		}
	}
	return failed
}

// removeGuardsExcept removes the guards of a bridge's attachments to a network that are not valid.
func (c *Conf) removeGuardsExcept(ctx context.Context, network string, valid []cni.Attachment) error {
	keep := map[string]bool{}
	for _, a := range valid {
		keep[spoofTable(c.Bridge, network, a.ContainerID, a.IfName).Name] = true
	}
	return removeGuards(ctx, func(name string) bool { return strings.HasPrefix(name, spoofTables(c.Bridge)) && !keep[name] })
}
