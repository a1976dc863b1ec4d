package certificates

import (
	"crypto/x509"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxNames bounds the names and addresses in the serving certificate of a node.
const maxNames = 100

// NodeNames says which names and addresses the serving certificate of a node cannot have, whatever the
// Node object says: a node writes it itself. Loopback, link-local, multicast and unspecified addresses are
// always refused, and so are localhost, names of services, and names that are no DNS subdomains in lower
// case, such as wildcards. The zero value refuses nothing more.
type NodeNames struct {
	// Names are DNS names that no node has, such as those of the API server.
	Names []string
	// Addresses are addresses that no node has, such as those of the API server.
	Addresses []netip.Addr
	// Shared is an address that nodes have although the rules refuse it: that of a machine on which they
	// run beside the API server. Several nodes may have it. It may be invalid.
	Shared netip.Addr
	// Services yields the ranges of service addresses. Nil means none.
	Services iter.Seq[netip.Prefix]
	// ClusterDomain is the domain of names of services. Empty means cluster.local.
	ClusterDomain string
}

// check returns why a request has a name or address that no node can have.
func (n NodeNames) check(parsed *x509.CertificateRequest) error {
	if count := len(parsed.DNSNames) + len(parsed.IPAddresses); count > maxNames {
		return fmt.Errorf("the request has %d names and addresses, of at most %d", count, maxNames)
	}
	for _, name := range parsed.DNSNames {
		if err := n.checkName(name); err != nil {
			return err
		}
	}
	for _, ip := range parsed.IPAddresses {
		address, _ := netip.AddrFromSlice(ip)
		if err := n.checkAddress(address.Unmap()); err != nil {
			return err
		}
	}
	return nil
}

func (n NodeNames) checkName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of a node: %s", name, problems[0])
	}
	if address, err := netip.ParseAddr(name); err == nil {
		return n.checkAddress(address)
	}
	if isNumeric(name) {
		return fmt.Errorf("%q is not the name of a node: it is read as an address", name)
	}
	domain := n.ClusterDomain
	if domain == "" {
		domain = "cluster.local"
	}
	for _, of := range []string{"localhost", "svc", domain, "kubernetes", "kubernetes.default"} {
		if name == of || strings.HasSuffix(name, "."+of) {
			return fmt.Errorf("%q is not the name of a node: names in %s are reserved", name, of)
		}
	}
	if slices.Contains(n.Names, name) {
		return fmt.Errorf("%q is not the name of a node: it is one of the API server", name)
	}
	return nil
}

// isNumeric reports whether resolvers read a name as an IPv4 address in another spelling, such as 0x7f.1 (inet_aton(3)).
func isNumeric(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if _, err := strconv.ParseUint(label, 0, 32); err != nil {
			return false
		}
	}
	return true
}

func (n NodeNames) checkAddress(address netip.Addr) error {
	switch {
	case address == n.Shared && address.IsValid():
		return nil
	case !address.IsGlobalUnicast(), address.Is4() && address.As4()[0] == 0:
		return fmt.Errorf("%s is not the address of a node: it is not a global unicast address", address)
	case slices.Contains(n.Addresses, address):
		return fmt.Errorf("%s is not the address of a node: it is one of the API server", address)
	}
	if n.Services != nil {
		for services := range n.Services {
			if services.Contains(address) {
				return fmt.Errorf("%s is not the address of a node: it is in the range %s of services", address, services)
			}
		}
	}
	return nil
}

// ofAnother returns why a name or an address in a request belongs to another node: it is the name of that
// Node, or that Node is older and has it in its status. An older node keeps what it has, so that a new one
// cannot take it, nor end its renewals.
func (n NodeNames) ofAnother(node *corev1.Node, parsed *x509.CertificateRequest, all iter.Seq[*corev1.Node]) error {
	wanted := map[string]bool{}
	for _, name := range parsed.DNSNames {
		wanted[name] = true
	}
	for _, ip := range parsed.IPAddresses {
		if address, _ := netip.AddrFromSlice(ip); address.Unmap() != n.Shared {
			wanted[address.Unmap().String()] = true
		}
	}
	for other := range all {
		if other.Name == node.Name {
			continue
		}
		if wanted[other.Name] {
			return fmt.Errorf("%q is the name of another node", other.Name)
		}
		if !isOlder(other, node) {
			continue
		}
		for _, address := range other.Status.Addresses {
			if wanted[canonical(address.Address)] {
				return fmt.Errorf("node %s, which is older, has %s", other.Name, address.Address)
			}
		}
	}
	return nil
}

// isOlder orders all nodes.
func isOlder(a, b *corev1.Node) bool {
	if order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); order != 0 {
		return order < 0
	}
	return a.Name < b.Name
}

// canonical returns one spelling of an address, and names as they are.
func canonical(text string) string {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().WithZone("").String()
	}
	return text
}
