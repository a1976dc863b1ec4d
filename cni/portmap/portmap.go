//go:build linux

// Package portmap is the CNI plugin "portmap": it forwards ports of the host to a container. It runs
// after the plugin that gives the container its addresses, and passes the result of that on.
//
//	{
//		"type": "portmap",
//		"capabilities": {"portMappings": true},
//		"snat": true
//	}
//
// The runtime gives the ports as runtimeConfig.portMappings. A connection to a mapped port reaches the
// container from other machines, from other containers, from the container itself, and from the host,
// also at 127.0.0.1. A connection from the container's subnet or from 127.0.0.0/8 gets the host's
// address, because the reply would not come back otherwise. All other connections keep theirs. The host
// port is not reserved: if a process listens on it, the container gets its connections, and of several
// containers the last one added.
//
// Each attachment has one nftables table of family inet, which ADD installs and DEL removes in one
// transaction each. A plugin that is killed leaves all of the table or nothing, and other tables
// are never changed. [Remove] removes the tables of all attachments of a network.
//
// Connections from 127.0.0.1 need route_localnet on the container's interface of the host, by which
// containers would reach everything that listens at 127.0.0.1 there. The table drops these packets, and
// DEL turns route_localnet off with the last attachment that needs it.
//
// UDP has no connections: ADD and DEL remove the host's conntrack entries for mapped UDP ports, so that
// the next packet goes by the new rules.
//
// Not included: connections to ::1, which the kernel does not route; externalSetMarkChain, which names
// a chain of iptables.
package portmap

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
)

// Plugin returns the plugin.
func Plugin() skel.Plugin {
	return skel.Plugin{Name: "portmap", Add: add, Del: del, Check: check, GC: gc, Status: status}
}

// Conf is the plugin's part of the configuration.
type Conf struct {
	Type string `json:"type"`
	// Capabilities must have portMappings: a runtime passes on no ports otherwise.
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	// SNAT gives connections from the container's subnet and from 127.0.0.0/8 the host's address. Nil
	// means true. Without it, ports are not mapped at 127.0.0.0/8.
	SNAT *bool `json:"snat,omitempty"`
	// MasqAll gives all connections the host's address, not only those that would get no reply otherwise.
	// It needs SNAT.
	MasqAll bool `json:"masqAll,omitempty"`
	// Backend is empty or "nftables"; others are refused.
	Backend string `json:"backend,omitempty"`
	// MarkMasqBit is the bit of the packet mark, from 0 to 31, that connections get which SNAT is for.
	// Nil means 13.
	MarkMasqBit *int `json:"markMasqBit,omitempty"`
	// ConditionsV4 and ConditionsV6 restrict the connections that are forwarded. They are words of
	// iptables, as for the reference plugin: -s, -d and -i, each with an optional "!" before it.
	ConditionsV4 []string `json:"conditionsV4,omitempty"`
	ConditionsV6 []string `json:"conditionsV6,omitempty"`
	// Scope is in the names of the tables; empty means the name of the network. Networks of the same
	// name on one host need different ones.
	Scope string `json:"scope,omitempty"`
	// LockDir is the directory of the lock; empty means /run/planekit.
	LockDir string `json:"lockDir,omitempty"`

	mappings []mapping
	v4, v6   []condition
	// table is the name of the attachment's table.
	table string
}

// defaultMasqBit is the reference plugin's: Kubernetes uses bits 14 and 15.
const defaultMasqBit = 13

func parse(r *skel.Request) (*Conf, error) {
	var more struct {
		ExternalSetMarkChain *string `json:"externalSetMarkChain"`
		RuntimeConfig        struct {
			PortMappings []portMapping `json:"portMappings"`
		} `json:"runtimeConfig"`
	}
	c := new(Conf)
	if err := errors.Join(r.Decode(c), r.Decode(&more)); err != nil {
		return nil, err
	}
	if c.Scope == "" {
		c.Scope = r.Name
	}
	if c.LockDir == "" {
		c.LockDir = "/run/planekit"
	}
	if c.SNAT == nil {
		c.SNAT = new(true)
	}
	if c.MarkMasqBit == nil {
		c.MarkMasqBit = new(defaultMasqBit)
	}
	if err := cni.CheckName(c.Scope); err != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "scope: %v", err)
	}
	if len(c.Scope) > maxScope {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "scope of %d bytes is longer than %d", len(c.Scope), maxScope)
	}
	if bit := *c.MarkMasqBit; bit < 0 || bit > 31 {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "markMasqBit %d is not from 0 to 31", bit)
	}
	if c.MasqAll && !*c.SNAT {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "masqAll needs snat")
	}
	if c.Backend != "" && c.Backend != "nftables" {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "backend %q is not supported: nftables is", c.Backend)
	}
	if more.ExternalSetMarkChain != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "externalSetMarkChain is not supported: the rules are not in iptables")
	}
	c.table = tableName(c.Scope, r.Name, r.ContainerID, r.IfName)
	var err, err4, err6 error
	c.mappings, err = parseMappings(more.RuntimeConfig.PortMappings)
	c.v4, err4 = parseConditions(c.ConditionsV4, false)
	c.v6, err6 = parseConditions(c.ConditionsV6, true)
	if err := errors.Join(err, err4, err6); err != nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "%v", err)
	}
	return c, nil
}

// locked runs f while no other process changes tables or route_localnet.
func (c *Conf) locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(c.LockDir, 0o755); err != nil {
		return err
	}
	unlock, err := cni.FileLock(ctx, filepath.Join(c.LockDir, "portmap.lock"))
	if err != nil {
		return cni.Errorf(cni.CodeTryAgain, "%v", err)
	}
	defer unlock()
	return f()
}

func add(ctx context.Context, r *skel.Request) (*cni.Result, error) {
	c, err := parse(r)
	if err != nil {
		return nil, err
	}
	if r.Previous == nil {
		return nil, cni.Errorf(cni.CodeInvalidConfig, "prevResult is missing: another plugin must come first")
	}
	if len(c.mappings) == 0 {
		return r.Previous, nil
	}
	want, err := c.plan(r)
	if err != nil {
		return nil, err
	}
	err = c.locked(ctx, func() error {
		if err := install(ctx, want); err != nil {
			return err
		}
		return allowLocalnet(want.localnet) // now the table drops what shall not pass
	})
	if err != nil {
		return nil, err
	}
	return r.Previous, forgetFlows(ctx, c.mappings)
}

// plan returns the table of an attachment.
func (c *Conf) plan(r *skel.Request) (table, error) {
	addresses := containerAddresses(r.Previous, r.IfName)
	if len(addresses) == 0 {
		return table{}, cni.Errorf(cni.CodeInvalidConfig, "prevResult has no address of %s", r.IfName)
	}
	localnet := ""
	if *c.SNAT {
		var err error
		if localnet, err = hostInterface(addresses); err != nil {
			return table{}, err
		}
	}
	return c.rules(addresses, localnet), nil
}

func del(ctx context.Context, r *skel.Request) error {
	c, err := parse(r)
	if err != nil {
		return err
	}
	there, err := exists(c.table)
	if err != nil {
		return err
	}
	if there { // most containers have no table, and need no lock
		err = c.locked(ctx, func() error { return uninstall(ctx, func(name string) bool { return name == c.table }) })
	}
	if err != nil {
		return err
	}
	return forgetFlows(ctx, c.mappings)
}

// check compares the attachment's table with what ADD would install.
func check(ctx context.Context, r *skel.Request) error {
	c, err := parse(r)
	if err != nil || len(c.mappings) == 0 {
		return err
	}
	want, err := c.plan(r)
	if err != nil {
		return err
	}
	if err := compare(ctx, want); err != nil {
		return cni.Errorf(cni.CodePlugin, "%v", err)
	}
	return nil
}

func gc(ctx context.Context, r *skel.Request) error {
	if r.Valid == nil {
		return cni.Errorf(cni.CodeInvalidConfig, "cni.dev/valid-attachments is missing")
	}
	c, err := parse(r)
	if err != nil {
		return err
	}
	valid := map[string]bool{}
	for _, a := range r.Valid {
		valid[tableName(c.Scope, r.Name, a.ContainerID, a.IfName)] = true
	}
	return c.locked(ctx, func() error {
		return uninstall(ctx, func(name string) bool { return scopeOf(name) == c.Scope && !valid[name] })
	})
}

func status(_ context.Context, r *skel.Request) error {
	if _, err := parse(r); err != nil {
		return err
	}
	if _, err := listChains(); err != nil {
		return cni.Errorf(cni.CodeNotAvailable, "nftables: %v", err)
	}
	return nil
}

// Remove removes the tables of all attachments in a scope. The plugin must not be called for the scope
// meanwhile.
func Remove(ctx context.Context, scope string) error {
	return uninstall(ctx, func(name string) bool { return scopeOf(name) == scope })
}

// Scopes returns the scopes that have tables on this host, sorted.
func Scopes() ([]string, error) { return scopes() }
