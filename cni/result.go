package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// Result is the result of a plugin, independent of the version of the specification: [ParseResult]
// and [Result.Encode] convert it.
type Result struct {
	Interfaces []Interface
	IPs        []IP
	Routes     []Route
	DNS        DNS
}

// Interface is a network interface that a plugin has created or uses.
type Interface struct {
	Name string `json:"name"`
	Mac  string `json:"mac,omitempty"`
	// MTU in bytes; needs version 1.1.
	MTU int `json:"mtu,omitempty"`
	// Sandbox is the path of the network namespace; empty means the host's.
	Sandbox string `json:"sandbox,omitempty"`
	// SocketPath and PciID need version 1.1.
	SocketPath string `json:"socketPath,omitempty"`
	PciID      string `json:"pciID,omitempty"`
}

// IP is an address assigned to an interface.
type IP struct {
	// Interface is an index into Result.Interfaces; nil means unknown, as in the result of an IPAM
	// plugin.
	Interface *int `json:"interface,omitempty"`
	// Address includes the prefix length of the subnet.
	Address netip.Prefix `json:"address"`
	Gateway netip.Addr   `json:"gateway,omitzero"`
}

// Route is a route inside the container.
type Route struct {
	Dst netip.Prefix `json:"dst"`
	// GW is the gateway. If not set, it is the gateway of an address of the same family.
	GW netip.Addr `json:"gw,omitzero"`
	// The fields below need version 1.1. Nil and zero mean the kernel's defaults.
	MTU      int  `json:"mtu,omitempty"`
	AdvMSS   int  `json:"advmss,omitempty"`
	Priority int  `json:"priority,omitempty"`
	Table    *int `json:"table,omitempty"`
	Scope    *int `json:"scope,omitempty"`
}

// wireResult is a result on the wire, in all supported versions.
type wireResult struct {
	Version    string      `json:"cniVersion"`
	Interfaces []Interface `json:"interfaces,omitempty"`
	IPs        []wireIP    `json:"ips,omitempty"`
	Routes     []Route     `json:"routes,omitempty"`
	DNS        *DNS        `json:"dns,omitempty"`
}

type wireIP struct {
	Family string `json:"version,omitempty"` // "4" or "6", before 1.0.0
	IP
}

// ParseResult reads a result. fallback is the version of a result without one.
func ParseResult(data []byte, fallback string) (*Result, error) {
	var wire *wireResult
	if err := json.Unmarshal(data, &wire); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	if wire == nil {
		return nil, errors.New("result: not an object")
	}
	if wire.Version == "" {
		wire.Version = fallback
	}
	if !Supported(wire.Version) {
		return nil, fmt.Errorf("result: %w", Errorf(CodeIncompatibleVersion, "unsupported version %q", wire.Version))
	}
	r := &Result{Interfaces: wire.Interfaces, Routes: wire.Routes}
	if wire.DNS != nil {
		r.DNS = *wire.DNS
	}
	for _, ip := range wire.IPs {
		r.IPs = append(r.IPs, ip.IP)
	}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return r, nil
}

// check refuses a result that a plugin could not use.
func (r *Result) check() error {
	for n, ip := range r.IPs {
		if !ip.Address.IsValid() {
			return fmt.Errorf("ips[%d]: no address", n)
		}
		if i := ip.Interface; i != nil && (*i < 0 || *i >= len(r.Interfaces)) {
			return fmt.Errorf("ips[%d]: there is no interface %d", n, *i)
		}
		if ip.Gateway.Zone() != "" {
			return fmt.Errorf("ips[%d]: gateway with a zone", n)
		}
	}
	for n, route := range r.Routes {
		if !route.Dst.IsValid() {
			return fmt.Errorf("routes[%d]: no destination", n)
		}
	}
	return nil
}

// Encode encodes the result for the given version, without what the version cannot express.
func (r *Result) Encode(version string) ([]byte, error) {
	if !Supported(version) {
		return nil, Errorf(CodeIncompatibleVersion, "unsupported version %q", version)
	}
	wire := wireResult{Version: version}
	if !r.DNS.IsZero() {
		wire.DNS = &r.DNS
	}
	for _, i := range r.Interfaces {
		if !AtLeast(version, "1.1.0") {
			i = Interface{Name: i.Name, Mac: i.Mac, Sandbox: i.Sandbox}
		}
		wire.Interfaces = append(wire.Interfaces, i)
	}
	for _, ip := range r.IPs {
		w := wireIP{IP: ip}
		if !AtLeast(version, "1.0.0") {
			w.Family = family(ip.Address.Addr())
		}
		wire.IPs = append(wire.IPs, w)
	}
	for _, route := range r.Routes {
		if !AtLeast(version, "1.1.0") {
			route = Route{Dst: route.Dst, GW: route.GW}
		}
		wire.Routes = append(wire.Routes, route)
	}
	return json.Marshal(wire)
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "4"
	}
	return "6"
}
