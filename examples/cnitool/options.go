package main

import "flag"

// options are the command line.
type options struct {
	confDir, bin, dir, ifName, args, capabilities, resolvConf string
	inProcess, asJSON                                         bool
}

func (o *options) add(flags *flag.FlagSet) {
	flags.StringVar(&o.confDir, "conf-dir", "/etc/cni/net.d", "directory of network configurations, of which the first by name is used")
	flags.StringVar(&o.bin, "bin-dir", "/opt/cni/bin", "directories of plugins, separated by colons")
	flags.StringVar(&o.dir, "dir", "", "directory of records (default /var/lib/planekit/cni)")
	flags.StringVar(&o.ifName, "ifname", "eth0", "name of the interface in the namespace")
	flags.StringVar(&o.args, "args", "", "CNI_ARGS, such as IgnoreUnknown=1;IP=10.1.0.7")
	flags.StringVar(&o.capabilities, "capabilities", "{}", `capabilities as JSON, such as {"portMappings":[...]}`)
	flags.BoolVar(&o.inProcess, "in-process", false, "run planekit's plugins in this process")
	flags.BoolVar(&o.asJSON, "json", false, "print the result of add as JSON instead of the table")
	flags.StringVar(&o.resolvConf, "resolv-conf", "", "file for the DNS configuration of the result of add")
}
