package kubeflags

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// parse parses and checks a command line.
func parse(arguments ...string) (*Options, error) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o := Add(flags)
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	return o, o.Check()
}

// TestServiceFlags: errors begin with the name of the flag.
func TestServiceFlags(t *testing.T) {
	for _, arguments := range [][]string{
		{"--service-cluster-ip-range", "10.0.0.0"},
		{"--service-cluster-ip-range", "10.0.0.0/31"},
		{"--service-cluster-ip-range", "10.0.0.0/16,10.1.0.0/16"},
		{"--service-cluster-ip-range", "10.0.0.0/16,fd00::/112,fd01::/112"},
		{"--advertise-address", "localhost"},
		{"--advertise-address", "127.0.0.1"},
		{"--advertise-address", "0.0.0.0"},
	} {
		if _, err := parse(arguments...); err == nil || !strings.HasPrefix(err.Error(), arguments[0]) {
			t.Errorf("parse(%q): %v, want an error that begins with %s", arguments, err, arguments[0])
		}
	}
	o, err := parse("--service-cluster-ip-range", "fd00::5/112,10.0.0.0/16", "--advertise-address", "192.0.2.1")
	if err != nil || o.ServiceCIDRs()[0].String() != "fd00::/112" || o.AdvertiseAddress().String() != "192.0.2.1" {
		t.Errorf("parse() has ServiceCIDRs %v and AdvertiseAddress %v, error %v, want fd00::/112 first, and 192.0.2.1",
			o.ServiceCIDRs(), o.AdvertiseAddress(), err)
	}
}
