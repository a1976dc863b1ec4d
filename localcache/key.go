package localcache

// An Object has the name of an API object.
type Object interface {
	GetNamespace() string
	GetName() string
}

// Key returns the key of an object: "namespace/name", or "name" if namespace is
// empty.
func Key(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// KeyOf returns the key of object.
func KeyOf[T Object](object T) string { return Key(object.GetNamespace(), object.GetName()) }
