package quota

import (
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// quotaBooks is the memory of a Controller: all objects that the handlers have seen, and an account
// for every quota. One step stores an object and credits the accounts, so that no object is free
// twice.
type quotaBooks struct {
	kinds  []quotaKind
	custom Custom // nil without

	mu sync.Mutex // guards all that follows
	// objects holds the objects of each namespace.
	objects map[string]map[quotaObject]metav1.Object
	// accounts are by namespace and by the key of the quota.
	accounts map[string]map[string]*quotaAccount
}

type quotaKind struct {
	Kind
	measure usage.Kind
}

// quotaObject names an object in a namespace. The name of one of Custom begins with its resource.
type quotaObject struct {
	kind int
	name string
}

// customKind is the number of all resources of Custom.
const customKind = -1

// countPrefix begins the names of counts of objects.
const countPrefix corev1.ResourceName = "count/"

// quotaAccount is about one quota.
type quotaAccount struct {
	uid  types.UID
	spec corev1.ResourceQuotaSpec
	// freed was charged and no longer exists.
	freed corev1.ResourceList
	// used is a lower bound for the usage in the status at revision. The status has more only if
	// more was charged since.
	used     corev1.ResourceList
	revision string
	charges  []quotaCharge
}

// quotaCharge is a charge that was made at the time noted or before.
type quotaCharge struct {
	noted  time.Time
	amount corev1.ResourceList
}

// quotaPage holds the state of a quota in the books at one time.
type quotaPage struct {
	// there counts the existing objects; freed those that were deleted since the
	// status was written; coming what was charged for objects that may still appear.
	there, freed, coming corev1.ResourceList
	// charged is set if coming will be empty later, but is not yet.
	charged bool
}

func newQuotaBooks(kinds []Kind, custom Custom) *quotaBooks {
	b := &quotaBooks{custom: custom, objects: map[string]map[quotaObject]metav1.Object{}, accounts: map[string]map[string]*quotaAccount{}}
	for _, kind := range kinds {
		b.kinds = append(b.kinds, quotaKind{Kind: kind, measure: usage.For(kind.Resource)})
	}
	return b
}

// change records that an object of a kind has changed from old to new. It returns the quotas of
// which something became free, and the other ones that count it.
func (b *quotaBooks) change(kind int, old, new metav1.Object, now time.Time) (freed, other []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	named := new
	if named == nil {
		named = old
	}
	namespace, at, measure := named.GetNamespace(), quotaObject{kind, named.GetName()}, b.measure(kind, named)
	if kind == customKind {
		at.name = b.custom.ResourceOf(named).String() + "/" + at.name
	}
	if new == nil {
		delete(b.objects[namespace], at)
		if len(b.objects[namespace]) == 0 {
			delete(b.objects, namespace)
		}
	} else {
		if b.objects[namespace] == nil {
			b.objects[namespace] = map[quotaObject]metav1.Object{}
		}
		b.objects[namespace][at] = new
	}
	for name, account := range b.accounts[namespace] {
		was, is := account.charge(measure, old, now), account.charge(measure, new, now)
		if less := usage.Beyond(was, is); len(less) > 0 {
			usage.Add(account.freed, less)
			freed = append(freed, name)
		} else if len(usage.Beyond(is, was)) > 0 {
			other = append(other, name)
		}
	}
	return freed, other
}

// measure returns how an object is measured.
func (b *quotaBooks) measure(kind int, object metav1.Object) usage.Kind {
	if kind == customKind {
		return usage.For(b.custom.ResourceOf(object))
	}
	return b.kinds[kind].measure
}

// charge returns what object uses of the quota. An object that cannot be measured uses nothing
// here; the next count reports the error.
func (a *quotaAccount) charge(measure usage.Kind, object metav1.Object, now time.Time) corev1.ResourceList {
	if object == nil {
		return nil
	}
	list, err := measure.Charge(&a.spec, a.spec.Hard, object, now)
	if err != nil {
		return nil
	}
	return list
}

// note records what was charged to quota since the previous call.
func (b *quotaBooks) note(quota *corev1.ResourceQuota, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	account, ok := b.accounts[quota.Namespace][localcache.KeyOf(quota)]
	return ok && account.uid == quota.UID && account.note(quota, now)
}

func (a *quotaAccount) note(quota *corev1.ResourceQuota, now time.Time) bool {
	if !laterRevision(quota.ResourceVersion, a.revision) {
		return false
	}
	more := usage.Beyond(quota.Status.Used, a.used)
	a.used, a.revision = corev1.ResourceList{}, quota.ResourceVersion
	usage.Add(a.used, quota.Status.Used)
	if len(more) > 0 {
		a.charges = append(a.charges, quotaCharge{now, more})
	}
	return len(more) > 0
}

// laterRevision reports whether revision a is later than b. They are decimal numbers
// without leading zeros
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
func laterRevision(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// read counts the usage of quota. It opens an account for a quota that has none, or whose account
// is of other resources: then everything that was charged for objects that do not exist may still
// appear.
func (b *quotaBooks) read(quota *corev1.ResourceQuota, now time.Time, inFlight time.Duration) (quotaPage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	page := quotaPage{coming: corev1.ResourceList{}}
	var err error
	if page.there, err = b.count(quota, now); err != nil {
		return page, err
	}
	name := localcache.KeyOf(quota)
	account, ok := b.accounts[quota.Namespace][name]
	if !ok || account.uid != quota.UID || !equality.Semantic.DeepEqual(account.spec, quota.Spec) {
		account = &quotaAccount{uid: quota.UID, spec: *quota.Spec.DeepCopy(), freed: corev1.ResourceList{}, used: page.there}
		if b.accounts[quota.Namespace] == nil {
			b.accounts[quota.Namespace] = map[string]*quotaAccount{}
		}
		b.accounts[quota.Namespace][name] = account
	}
	account.note(quota, now)
	for len(account.charges) > 0 && now.Sub(account.charges[0].noted) >= inFlight {
		account.charges = account.charges[1:]
	}
	for _, charge := range account.charges {
		usage.Add(page.coming, charge.amount)
	}
	page.charged = len(account.charges) > 0
	page.freed = account.freed.DeepCopy()
	return page, nil
}

// count returns what the objects in the quota's namespace use of it, over all kinds that count
// towards it.
func (b *quotaBooks) count(quota *corev1.ResourceQuota, now time.Time) (corev1.ResourceList, error) {
	there := corev1.ResourceList{}
	touched := make([]bool, len(b.kinds))
	for i := range b.kinds {
		for name := range quota.Spec.Hard {
			if b.kinds[i].measure.Counts(name) {
				there[name] = resource.Quantity{Format: resource.DecimalSI}
				touched[i] = true
			}
		}
	}
	custom := b.countsCustom(quota, there)
	for at, object := range b.objects[quota.Namespace] {
		if at.kind == customKind && !custom || at.kind != customKind && !touched[at.kind] {
			continue
		}
		charge, err := b.measure(at.kind, object).Charge(&quota.Spec, quota.Spec.Hard, object, now)
		if err != nil {
			return nil, err
		}
		usage.Add(there, charge)
	}
	return there, nil
}

// countsCustom sets to zero what quota counts of Custom, and reports whether there is something.
func (b *quotaBooks) countsCustom(quota *corev1.ResourceQuota, there corev1.ResourceList) (any bool) {
	if b.custom == nil {
		return false
	}
	for name := range quota.Spec.Hard {
		r, ok := strings.CutPrefix(string(name), string(countPrefix))
		if !ok {
			continue
		}
		if _, ok := b.custom.Resources().Get(r); ok {
			there[name], any = resource.Quantity{Format: resource.DecimalSI}, true
		}
	}
	return any
}

// plan records that used is about to be written. What the status has more from now on was charged
// by admission, even if it is only seen together with the write.
func (b *quotaBooks) plan(name string, used corev1.ResourceList) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if account := b.account(name); account != nil {
		for resource, q := range used {
			if have, ok := account.used[resource]; !ok || q.Cmp(have) < 0 {
				account.used[resource] = q.DeepCopy()
			}
		}
	}
}

// settle records that the status was written as page has it.
func (b *quotaBooks) settle(name string, page quotaPage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if account := b.account(name); account != nil {
		account.freed = usage.Beyond(account.freed, page.freed)
	}
}

// close forgets a quota.
func (b *quotaBooks) close(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	namespace, _, _ := strings.Cut(name, "/")
	delete(b.accounts[namespace], name)
	if len(b.accounts[namespace]) == 0 {
		delete(b.accounts, namespace)
	}
}

func (b *quotaBooks) account(name string) *quotaAccount {
	namespace, _, _ := strings.Cut(name, "/")
	return b.accounts[namespace][name]
}
