// Package configfile reads a configuration file of the kubelet, of the kind KubeletConfiguration
// (kubelet.config.k8s.io/v1beta1), as settings of kubelet-core's flags.
//
// The kubelet core does not have everything that the file can say. A field with a flag of the same meaning sets this
// flag. Any other field may have the kubelet's default, which kubeadm writes into many fields. A file with another
// value, an unknown field or a value of another type is refused, and the error names all such fields.
package configfile
