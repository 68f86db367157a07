// Package deps holds the rule of who may import whom, and its test holds every package of the module to it.
package deps
