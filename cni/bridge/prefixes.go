//go:build linux

package bridge

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// Prefixes are encoded as one comma-separated string, as Kubernetes does for the ranges of a
// dual-stack cluster.
type Prefixes []netip.Prefix

// MarshalJSON implements json.Marshaler.
func (p Prefixes) MarshalJSON() ([]byte, error) {
	var all []string
	for _, prefix := range p {
		all = append(all, prefix.String())
	}
	return json.Marshal(strings.Join(all, ","))
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Prefixes) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*p = nil
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return err
		}
		*p = append(*p, prefix.Masked())
	}
	return nil
}

// of returns the prefix of addr's family, or other if there is none.
func (p Prefixes) of(addr netip.Addr, other netip.Prefix) netip.Prefix {
	for _, prefix := range p {
		if prefix.Addr().Is4() == addr.Is4() {
			return prefix
		}
	}
	return other
}
