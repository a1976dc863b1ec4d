package podspec

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What Windows takes as the name of a user, DOMAIN\USER.
var (
	netBIOSDomain = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	dnsDomain     = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	control       = regexp.MustCompile(`[[:cntrl:]]`)
	dotsOrSpaces  = regexp.MustCompile(`^[\. ]+$`)
	notInUser     = `"/\:;|=,+*?<>@[]`
)

const (
	maxGMSASpec     = 64 << 10
	maxDomainLength = 256
	maxUserLength   = 104
)

func checkWindowsOptions(ps *check.Problems, p *field.Path, o *corev1.WindowsSecurityContextOptions) {
	if o == nil {
		return
	}
	if name := o.GMSACredentialSpecName; name != nil {
		ps.Each(p.Child("gmsaCredentialSpecName"), name, validation.IsDNS1123Subdomain(*name))
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		at := p.Child("gmsaCredentialSpec")
		ps.Valid(*spec != "", at, spec, "gmsaCredentialSpec cannot be an empty string")
		ps.Valid(len(*spec) <= maxGMSASpec, at, spec, "gmsaCredentialSpec size must be under 64 KiB")
	}
	if name := o.RunAsUserName; name != nil {
		invalid := func(ok bool, message string) { ps.Valid(ok, p.Child("runAsUserName"), name, "runAsUserName"+message) }
		switch {
		case *name == "":
			invalid(false, " cannot be an empty string")
		case control.MatchString(*name):
			invalid(false, " cannot contain control characters")
		case strings.Count(*name, `\`) > 1:
			invalid(false, " cannot contain more than one backslash")
		default:
			checkWindowsUser(*name, invalid)
		}
	}
}

func checkWindowsUser(name string, check func(ok bool, message string)) {
	domain, user, both := strings.Cut(name, `\`)
	if !both {
		domain, user = "", name
	}
	check(len(domain) < maxDomainLength, fmt.Sprintf("'s Domain length must be under %d characters", maxDomainLength))
	check(!both || netBIOSDomain.MatchString(domain) || dnsDomain.MatchString(domain), "'s Domain doesn't match the NetBios nor the DNS format")
	check(user != "", "'s User cannot be empty")
	check(len(user) <= maxUserLength, fmt.Sprintf("'s User length must not be longer than %d characters", maxUserLength))
	check(!dotsOrSpaces.MatchString(user), "'s User cannot contain only periods or spaces")
	check(!strings.ContainsAny(user, notInUser), "'s User cannot contain the following characters: "+notInUser)
}

func hostProcess(o *corev1.WindowsSecurityContextOptions) *bool {
	if o == nil {
		return nil
	}
	return o.HostProcess
}

// checkHostProcess requires containers that are processes of the host to be the only ones, in its network.
func checkHostProcess(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	var ofPod *bool
	if spec.SecurityContext != nil {
		ofPod = hostProcess(spec.SecurityContext.WindowsOptions)
	}
	all, count := 0, 0
	eachContainer(p, spec, func(p *field.Path, c *corev1.Container) {
		is := ofPod
		if c.SecurityContext != nil {
			if own := hostProcess(c.SecurityContext.WindowsOptions); own != nil {
				ps.Valid(ofPod == nil || *ofPod == *own, p.Child("securityContext", "windowsOptions", "hostProcess"), *own,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", optional.Deref(ofPod)))
				is = own
			}
		}
		all++
		if optional.Deref(is) {
			count++
		}
	})
	if count > 0 {
		ps.Valid(count == all, p, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
		ps.Valid(spec.HostNetwork, p.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers")
	}
}
