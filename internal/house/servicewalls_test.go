package house

// serviceWalls holds the walls of services: proxies and policies.
var serviceWalls = []wall{
	{packages: "service/policy", closed: true, may: []allowance{
		{"service/ruleset", "rules are data that is kept in the kernel in one way"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "service/ruleset", closed: true, may: []allowance{
		{"github.com/google/nftables", "tables of the kernel, without a program"},
		{"github.com/mdlayher/netlink", "its connections"},
		{"github.com/vishvananda/netlink", "listings that say when they are torn"},
		{"github.com/vishvananda/netns", "the rules of a node are in its namespace"},
		{"golang.org/x/sys", "the kernel's constants"},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "service/servicetest", closed: true, may: []allowance{
		{"github.com/vishvananda/netlink", "links, addresses and routes"},
		{"github.com/vishvananda/netns", "a host is a network namespace"},
		{"golang.org/x/sys", "the kernel's constants"},
	}},
	{packages: "service/proxy/metrics", closed: true, may: []allowance{
		{"service/proxy", "it counts what a proxy does"},
		{"github.com/prometheus/client_golang", "the format of metrics"},
	}},
	{packages: "service/dns/metrics", closed: true, may: []allowance{
		{"service/dns", "it counts what a server answers"},
		{"github.com/prometheus/client_golang", "the format of metrics"},
	}},
	{packages: "service/dns", closed: true, may: []allowance{
		{"github.com/miekg/dns", "the format of questions and answers"},
		{"golang.org/x/sync", "equal questions are sent once"},
		{"k8s.io/api", kubeTypes},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "service/loadbalancer", closed: true, may: []allowance{
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
	{packages: "service/proxy", closed: true, may: []allowance{
		{"service/ruleset", "rules are data that is kept in the kernel in one way"},
		{"github.com/vishvananda/netlink", "conntrack entries of flows that have ended"},
		{"golang.org/x/sys", "the kernel's constants"},
		{"k8s.io/api", kubeTypes},
		{"k8s.io/apimachinery", machinery},
		{"github.com/go-logr/logr", logging},
	}},
}
