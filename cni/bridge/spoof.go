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
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	mdlayher "github.com/mdlayher/netlink"
	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
	"golang.org/x/sys/unix"
)

// spoofGuard is the nftables table of one attachment that drops what its container sends with another
// hardware address than its own.
type spoofGuard struct {
	table *nftables.Table
	// port is the host's end of the container's pair.
	port string
	mac  net.HardwareAddr
}

// spoofPrefix begins the names of all tables of this kind, and is followed by the bridge.
const spoofPrefix = "planekit-macspoof/"

// spoofTable returns the table of an attachment. The separator is in no name, so that no two
// attachments have the same.
func spoofTable(bridge, network, containerID, ifName string) *nftables.Table {
	sum := sha256.Sum256([]byte(network + "\x00" + containerID + "\x00" + ifName))
	return &nftables.Table{Name: spoofTables(bridge) + hex.EncodeToString(sum[:16]), Family: nftables.TableFamilyBridge}
}

// spoofTables returns the prefix of the names of a bridge's tables. The name of an interface may have
// any byte but '/'.
func spoofTables(bridge string) string { return spoofPrefix + bridge + "/" }

// guard returns the guard of an attachment by the interfaces of its result.
func (c *Conf) guard(r *skel.Request, interfaces []cni.Interface) (spoofGuard, error) {
	g := spoofGuard{table: spoofTable(c.Bridge, r.Name, r.ContainerID, r.IfName)}
	for _, i := range interfaces {
		switch {
		case i.Sandbox != "" && i.Name == r.IfName:
			mac, err := net.ParseMAC(i.Mac)
			if err != nil {
				return g, cni.Errorf(cni.CodeInvalidConfig, "interface %s: %v", i.Name, err)
			}
			g.mac = mac
		case i.Sandbox == "" && i.Name != c.Bridge && i.Name != c.gatewayLink():
			g.port = i.Name
		}
	}
	if g.port == "" || len(g.mac) != 6 {
		return g, cni.Errorf(cni.CodeInvalidConfig, "the result lacks the interfaces of %s", r.IfName)
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

// comment identifies the rule completely, in the syntax of nft.
func (g spoofGuard) comment() []byte {
	text := fmt.Sprintf("iifname %q ether saddr != %v drop", g.port, g.mac)
	return userdata.Append(nil, userdata.TypeComment, append([]byte(text), 0))
}

// chain is the one chain of the table. The kernel calls it before it learns addresses.
func (g spoofGuard) chain() *nftables.Chain {
	return &nftables.Chain{
		Name: "prerouting", Table: g.table, Type: nftables.ChainTypeFilter,
		Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw,
	}
}

// install replaces the table in one transaction.
func (g spoofGuard) install(ctx context.Context) error {
	c := spoofConn(ctx)
	c.AddTable(g.table) // there is one to delete now
	c.DelTable(g.table)
	c.AddTable(g.table)
	port := make([]byte, unix.IFNAMSIZ)
	copy(port, g.port)
	c.AddRule(&nftables.Rule{Table: g.table, Chain: c.AddChain(g.chain()), UserData: g.comment(), Exprs: []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: port},
		&expr.Payload{Base: expr.PayloadBaseLLHeader, Offset: 6, Len: 6, DestRegister: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: g.mac},
		&expr.Verdict{Kind: expr.VerdictDrop},
	}})
	if err := c.Flush(); err != nil {
		return fmt.Errorf("macspoofchk: add nftables table %s: %w", g.table.Name, err)
	}
	return nil
}

// check reports whether the kernel still has the guard.
func (g spoofGuard) check(ctx context.Context) error {
	rules, err := spoofConn(ctx).GetRules(g.table, g.chain())
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("macspoofchk: %w", err)
	}
	if len(rules) != 1 || !bytes.Equal(rules[0].UserData, g.comment()) {
		return cni.Errorf(cni.CodePlugin, "macspoofchk: the rule for %s is lost", g.port)
	}
	return nil
}

// removeGuards removes the tables with certain names. Without nftables in the kernel there are none.
func removeGuards(ctx context.Context, matches func(name string) bool) error {
	tables, err := dump(func() ([]*nftables.Table, error) {
		return spoofConn(ctx).ListTablesOfFamily(nftables.TableFamilyBridge)
	})
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
