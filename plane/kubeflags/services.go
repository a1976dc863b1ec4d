package kubeflags

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// services holds the flags of the addresses of Services and of the API server for the cluster.
type services struct {
	ranges    []string
	advertise string
	// prefixes are the parsed ranges, and address the parsed advertise.
	prefixes []netip.Prefix
	address  netip.Addr
}

func (s *services) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.ranges, "service-cluster-ip-range", []string{"10.96.0.0/12"}, "addresses of services: one range, or one of each family with that of the default family first")
	flags.StringVar(&s.advertise, "advertise-address", "", "address at which the cluster reaches this API server (default: that of the listener, or of the host if the listener has the loopback address or all)")
}

func (s *services) check() error {
	s.prefixes = nil
	if n := len(s.ranges); n == 0 || n > 2 {
		return errors.New("--service-cluster-ip-range must be one range, or one of each family")
	}
	for _, text := range s.ranges {
		r, err := netip.ParsePrefix(text)
		if err != nil || r.Addr().BitLen()-r.Bits() < 2 {
			return fmt.Errorf("--service-cluster-ip-range must have ranges of at least four addresses, not %q", text)
		}
		s.prefixes = append(s.prefixes, r.Masked())
	}
	if len(s.prefixes) == 2 && s.prefixes[0].Addr().Is4() == s.prefixes[1].Addr().Is4() {
		return errors.New("--service-cluster-ip-range must have one range of each family")
	}
	if s.advertise == "" {
		return nil
	}
	ip, err := netip.ParseAddr(s.advertise)
	if err != nil || !ip.IsGlobalUnicast() {
		return fmt.Errorf("--advertise-address must be an address that others can reach, not %q", s.advertise)
	}
	s.address = ip.Unmap()
	return nil
}

func (s *services) apply(config *plane.Config, _ *stack.Stack) error {
	config.ServiceCIDRs = s.prefixes
	return nil
}

// ServiceCIDRs returns the ranges of service addresses: one, or one of each family.
func (o *Options) ServiceCIDRs() []netip.Prefix { return o.services.prefixes }

// AdvertiseAddress returns --advertise-address; an invalid address if the flag is not set. Apply
// does not set plane.Config.Advertise, which also needs the port of the listener.
func (o *Options) AdvertiseAddress() netip.Addr { return o.services.address }
